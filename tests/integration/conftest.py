"""A CRI client of the session's runtime, for tests that create their pods by CRI calls."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.testing.runtime import PrivateRuntime
from tests.contract.cri.rig import Runtime, connected


@pytest.fixture
async def runtime(daemon: PrivateRuntime, tmp_path: Path) -> AsyncIterator[Runtime]:
    """The runtime; pods created through it are removed afterwards."""
    async with connected(daemon.endpoint, tmp_path) as made:
        yield made
