"""Fixtures of the tests in which the runtime server is killed at chosen steps."""

import asyncio
import random
import socket
from collections.abc import Iterator

import pytest

from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.killstage import Stage
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX


@pytest.fixture(scope="module")
def stage(isolation: Isolation) -> Iterator[Stage]:
    """A private server that can be killed at a chosen step."""
    home = isolation.home / "k"
    made = PrivateCriServer(home, f"{isolation.bridge}k", isolation.further_subnet("k"), "pykubelet.testing.killpoints")
    cgroup = f"{isolation.cgroup_root}-k"
    try:
        made.write_configuration()
        made.load(ImageSpec(BUSYBOX, volumes=("/volume",), files={"volume/given": b"content"}))
        made.start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        directory = isolation.home / "notes"
        directory.mkdir(exist_ok=True)
        with asyncio.Runner() as runner:
            yield Stage(made, cgroup, directory, port, BUSYBOX, runner)
    finally:
        made.destroy()
        remove_cgroups(cgroup)


@pytest.fixture
def luck(request: pytest.FixtureRequest, seed: int) -> random.Random:
    """A random generator of the test, which does not depend on earlier tests."""
    print(f"the same chance again: --seed={seed}")
    return random.Random(f"{seed} {request.node.name}")
