"""A CRI client of the session's runtime, for tests that create their pods by CRI calls."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.traces import remove_cgroups
from tests.contract.cri.support import CGROUP, Runtime
from tests.manifests import BUSYBOX


@pytest.fixture
async def runtime(daemon: PrivateRuntime, tmp_path: Path) -> AsyncIterator[Runtime]:
    """The runtime; pods created through it are removed afterwards."""
    (tmp_path / "logs").mkdir()
    async with CriClient.connect(daemon.endpoint) as client:
        made = Runtime(client, BUSYBOX, tmp_path / "logs")
        try:
            yield made
        finally:
            await made.clean()
            remove_cgroups(CGROUP)
