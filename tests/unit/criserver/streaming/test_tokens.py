"""One-time tokens."""

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Bytes
from pykubelet.criserver.streaming.tokens import LIFETIME, Tokens
from pykubelet.testing.clock import VirtualClock


def test_a_token_works_once() -> None:
    tokens: Tokens[str] = Tokens(VirtualClock())
    token = tokens.issue("x", Bytes(0))
    assert tokens.redeem(token) == "x"
    for used in (token, "unknown"):
        with pytest.raises(NotFound):
            tokens.redeem(used)


async def test_expired_token_is_not_found() -> None:
    clock = VirtualClock()
    tokens: Tokens[str] = Tokens(clock)
    token = tokens.issue("x", Bytes(0))
    await clock.advance(LIFETIME + 1)
    with pytest.raises(NotFound):
        tokens.redeem(token)


async def test_there_is_a_limit_and_old_ones_make_room() -> None:
    clock = VirtualClock()
    tokens: Tokens[str] = Tokens(clock)
    for _ in range(1000):
        tokens.issue("x", Bytes(0))
    with pytest.raises(Transient, match="too many"):
        tokens.issue("x", Bytes(0))
    await clock.advance(LIFETIME + 1)
    tokens.issue("x", Bytes(0))
