"""Containers created from checkpoints by the runtime server, with CRIU and a real OCI runtime.

Debian 12 has no package of CRIU: where it is not on PATH, the tests that need it are skipped.
"""

import asyncio
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until_answer
from tests.contract.cri.support import CGROUP, Program, Runtime
from tests.manifests import BUSYBOX, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]
needs_criu = pytest.mark.skipif(shutil.which("criu") is None, reason="criu is not on PATH")

_COUNT = """
rm /etc/group; mkdir /made; echo kept > /made/file; chmod 640 /made/file
trap 'exit 9' TERM
i=0
while :; do i=$((i+1)); echo count $i; echo $i > /number; sleep 0.05; done
"""
COUNTER = Program("counter", ("sh", "-c", _COUNT), Script())


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    made = PrivateCriServer(
        isolation.home / "r",
        f"{isolation.bridge}r",
        isolation.further_subnet("r"),
        further={"enable_experimental_restore_via_create": True},
    )
    made.start()
    made.load(ImageSpec(BUSYBOX))
    yield made
    made.destroy()


@pytest.fixture
async def runtime(server: PrivateCriServer, tmp_path: Path) -> AsyncIterator[Runtime]:
    (tmp_path / "logs").mkdir()
    async with CriClient.connect(server.endpoint) as client:
        made = Runtime(client, BUSYBOX, tmp_path / "logs")
        try:
            yield made
        finally:
            await made.clean()
            remove_cgroups(CGROUP)


def counts(log: Path) -> list[int]:
    return [int(line.split()[-1]) for line in log.read_text().splitlines() if "count" in line]


async def counted(log: Path, least: int) -> int:
    """Wait until the log has a count of at least this; returns the last one."""

    async def last() -> int | None:
        found = counts(log) if log.exists() else []
        return found[-1] if found and found[-1] >= least else None

    found = await until_answer(last)
    assert found is not None
    return found


async def output(runtime: Runtime, container: ContainerID, command: str) -> str:
    done = await runtime.client.exec_sync(container, ["sh", "-c", command], 20)
    return done.stdout.decode() + done.stderr.decode()


async def dumped(runtime: Runtime, archive: Path, program: Program = COUNTER) -> int:
    """Run a counter, write its checkpoint, and remove its pod; returns the count up to which it came."""
    container = await runtime.start(program)
    log = Path((await runtime.status(container)).log_path)
    await counted(log, 5)
    await runtime.client.checkpoint_container(container, str(archive), 60)
    reached = counts(log)[-1]
    await runtime.clean()
    log.unlink()
    return reached


async def restored(runtime: Runtime, image: str, program: Program = COUNTER) -> ContainerID:
    config = runtime.container_config(program)
    config.image.image = image
    return await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())


@needs_criu
async def test_counter_goes_on_in_a_new_pod(runtime: Runtime, tmp_path: Path) -> None:
    archive = tmp_path / "counter.tar"
    reached = await dumped(runtime, archive)
    container = await restored(runtime, str(archive))
    created = await runtime.status(container)
    assert created.state == pb.CONTAINER_CREATED and created.image.image != str(archive)
    await runtime.client.start_container(container)
    status = await runtime.status(container)
    assert status.state == pb.CONTAINER_RUNNING and status.image_ref == created.image_ref
    log = Path(status.log_path)
    assert await counted(log, reached + 5) > reached
    seen = counts(log)
    # The log of the checkpoint is continued, without a gap and without a second start.
    assert seen == list(range(1, len(seen) + 1))
    words = await output(runtime, container, "cat /made/file; stat -c %a /made/file; ls /etc/group; hostname")
    assert words.split()[:2] == ["kept", "640"] and "No such file" in words
    await runtime.client.stop_container(container, 20)
    assert (await runtime.status(container)).exit_code == 9


@needs_criu
async def test_restart_of_the_server_between_creation_and_start_and_while_it_runs(
    runtime: Runtime, server: PrivateCriServer, tmp_path: Path
) -> None:
    archive = tmp_path / "counter.tar"
    reached = await dumped(runtime, archive)
    container = await restored(runtime, str(archive))
    archive.unlink()
    server.stop()
    server.start()
    await runtime.client.start_container(container)
    log = Path((await runtime.status(container)).log_path)
    now = await counted(log, reached + 3)
    server.stop()
    server.start()
    await counted(log, now + 5)
    assert not list((server.home / "root" / "restores").iterdir())
    # It can be dumped again.
    again = tmp_path / "again.tar"
    await runtime.client.checkpoint_container(container, str(again), 60)
    await runtime.client.stop_container(container, 20)
    assert (await runtime.status(container)).exit_code == 9
    await runtime.clean()
    last = counts(log)[-1]
    log.unlink()
    third = await restored(runtime, str(again))
    await runtime.client.start_container(third)
    await counted(log, last + 3)


def as_image(archive: Path, reference: str) -> ImageSpec:
    """The image of a checkpoint, as ``buildah add`` and an annotation make it of an archive."""
    with tarfile.open(archive) as tar:
        read = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        files = {name: file.read() for name, file in read.items() if file is not None}
    annotations = {"org.criu.checkpoint.container.name": "counter"}
    return ImageSpec(reference, (), environment=(), files=files, annotations=annotations, bare=True)


@needs_criu
async def test_checkpoint_image(runtime: Runtime, server: PrivateCriServer, tmp_path: Path) -> None:
    archive = tmp_path / "counter.tar"
    reached = await dumped(runtime, archive)
    name = "localhost/pykubelet/checkpoint:1"
    server.load(as_image(archive, name))
    container = await restored(runtime, name)
    server.stop()
    server.start()
    await runtime.client.start_container(container)
    status = await runtime.status(container)
    await counted(Path(status.log_path), reached + 5)
    assert status.annotations["checkpointImage"] == name
    mounted = Path("/proc/self/mounts").read_text()
    assert f"{container}/rootfs" in mounted and f"{container}-checkpoint" not in mounted


@needs_criu
def test_pod_of_an_agent_with_a_checkpoint_image(
    isolation: Isolation, server: PrivateCriServer, tmp_path: Path
) -> None:
    """Its pod is one of a manifest; the image is the checkpoint's, and the agent does nothing special."""
    agent = AgentProcess(isolation.home / "ra", server.endpoint, isolation.cgroup_root)
    agent.start()
    try:
        agent.write("first", pod("first", container("counter", COUNTER.command)))
        agent.wait_running("first")
        log = next(agent.pod_logs.glob("default_first*")) / "counter" / "0.log"
        wait_for(lambda: len(counts(log)) > 10, 20, agent.log_tail)
        (identity,) = agent.wait_running("first")[0].status.container_statuses
        archive = tmp_path / "counter.tar"
        asyncio.run(_checkpoint(server.endpoint, identity.container_id.rpartition("/")[2], archive))
        reached = counts(log)[-1]
        (agent.manifests / "first").unlink()
        name = "localhost/pykubelet/checkpoint:2"
        server.load(as_image(archive, name))
        again = container("counter", COUNTER.command) | {"image": name}
        agent.write("second", pod("second", again))
        agent.wait_running("second")
        log = next(agent.pod_logs.glob("default_second*")) / "counter" / "0.log"
        wait_for(lambda: counts(log)[-1] > reached + 10, 20, agent.log_tail)
        seen = counts(log)
        assert seen == list(range(1, len(seen) + 1))
        assert "count" in agent.cli("logs", "second").stdout
        agent.remove_all_pods()
        assert agent.stop() == 0
    finally:
        agent.destroy()


async def _checkpoint(endpoint: str, identity: str, archive: Path) -> None:
    async with CriClient.connect(endpoint) as client:
        await client.checkpoint_container(ContainerID(identity), str(archive), 60)
