"""Full disk of the runtime server: creations are refused; running pods can be recovered, stopped and removed."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import MIB, Bytes
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.linux.filesystems.mounts import tmpfs
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]


@pytest.fixture
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    """A server whose persistent directories are on a separate small disk."""
    made = PrivateCriServer(isolation.home / "f", f"{isolation.bridge}f", isolation.further_subnet("f"))
    root = made.home / "root"
    root.mkdir(parents=True)
    tmpfs(str(root), size=Bytes(24 * MIB), mode=0o711)
    made.write_configuration()
    made.load(ImageSpec(BUSYBOX))
    made.start()
    yield made
    made.destroy()
    remove_cgroups(f"{isolation.cgroup_root}-f")


def _fill(server: PrivateCriServer) -> Path:
    path = server.home / "root" / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return path


def _configs(isolation: Isolation, name: str) -> tuple[pb.PodSandboxConfig, pb.ContainerConfig]:
    sandbox = pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, namespace="full", uid=name),
        linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"{isolation.cgroup_root}-f"),
    )
    container = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="main"), image=pb.ImageSpec(image=BUSYBOX), command=["sleep", "600"]
    )
    return sandbox, container


async def _begin(client: CriClient, isolation: Isolation, name: str) -> str:
    sandbox_config, config = _configs(isolation, name)
    sandbox = await client.run_pod_sandbox(sandbox_config)
    container = await client.create_container(sandbox, config, sandbox_config)
    await client.start_container(container)
    return container


async def _end(client: CriClient) -> None:
    for container in [ContainerID(each.id) for each in await client.list_containers()]:
        await client.stop_container(container, 0)
        status = (await client.container_status(container)).status
        assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 137)
        await client.remove_container(container)
    for sandbox in [SandboxID(each.id) for each in await client.list_pod_sandboxes()]:
        await client.stop_pod_sandbox(sandbox)
        await client.remove_pod_sandbox(sandbox)
    assert not await client.list_containers()
    assert not await client.list_pod_sandboxes()


def test_full_disk_fails_calls_and_leaves_no_records(server: PrivateCriServer, isolation: Isolation) -> None:
    async def before() -> list[str]:
        async with CriClient.connect(server.endpoint) as client:
            return [await _begin(client, isolation, name) for name in ("one", "two")]

    async def full(running: list[str]) -> None:
        async with CriClient.connect(server.endpoint) as client:
            listed = await client.list_containers()
            assert {each.id: each.state for each in listed} == dict.fromkeys(running, pb.CONTAINER_RUNNING)
            with pytest.raises(PykubeletError, match=r"(?i)disk full|no space"):
                await _begin(client, isolation, "three")
            await _end(client)

    async def after() -> None:
        async with CriClient.connect(server.endpoint) as client:
            # The name of the refused sandbox is not reserved.
            assert await _begin(client, isolation, "three")
            await _end(client)

    running = asyncio.run(before())
    filler = _fill(server)
    assert os.statvfs(filler).f_bavail == 0
    server.signal(signal.SIGKILL)
    server.start()
    asyncio.run(full(running))
    filler.unlink()
    asyncio.run(after())
    server.signal(signal.SIGKILL)
    server.start()
    asyncio.run(after())
    places = ("run/bundles", "run/sandboxes", "run/ns", "run/exits", "root/network", "root/storage/containers")
    records = ("root/records/containers", "root/records/sandboxes")
    assert [str(path) for place in (*places, *records) for path in (server.home / place).iterdir()] == []
