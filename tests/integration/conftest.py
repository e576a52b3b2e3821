"""Fixtures of the tests on a real node: one agent a module, on the session's containerd."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess
from tests.manifests import Json

Apply = Callable[..., None]


@pytest.fixture
def apply(agent: AgentProcess) -> Iterator[Apply]:
    """Write manifests by file name; they are taken away again after the test. Nobody waits for the pods to be gone."""
    written: set[Path] = set()

    def write(name: str, *documents: Json) -> None:
        written.add(agent.write(f"{name}.json", *documents))

    yield write
    for path in written:
        path.unlink(missing_ok=True)
