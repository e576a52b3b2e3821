"""Runtime handlers before and after a reload of the configuration."""

from typing import cast

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.runtimes import ContainerRuntime, RuntimeHandlers

A, B, C = (cast("ContainerRuntime", object()) for _ in range(3))


def test_replaced_handlers_can_be_requested_and_removed_ones_serve_their_sandboxes() -> None:
    handlers = RuntimeHandlers(runtimes={"a": A, "b": B}, default="a")
    handlers.replace({"b": B, "c": C}, "c")
    assert handlers.requested("") == "c" and handlers.requested("b") == "b"
    with pytest.raises(Invalid, match=r"no runtime is configured for handler 'a'; configured handlers: b, c"):
        handlers.requested("a")
    assert handlers.runtime("a") is A and handlers.recorded("a") == "a"
    assert handlers.runtime("unknown") is C and handlers.recorded("unknown") == "c"
    assert set(handlers.runtimes) == {"b", "c"}
    handlers.replace({"a": C}, "a")
    assert handlers.runtime("a") is C and handlers.runtime("b") is B
