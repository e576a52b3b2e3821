"""Containers created from checkpoints by the runtime server, with a real OCI runtime.

Debian 12 has no package of CRIU: where it is not on PATH, only the tests with a stand-in run. That one starts the
program again; all else is real.
"""

import asyncio
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient, CriError
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.criu import stand_in
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.wait import until_answer
from tests.contract.cri.rig import Program, Runtime, connected
from tests.manifests import BUSYBOX, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_COUNT = """
rm /etc/group; mkdir /made; echo kept > /made/file; chmod 640 /made/file
trap 'exit 9' TERM
i=0
while :; do i=$((i+1)); echo count $i; echo $i > /number; sleep 0.05; done
"""
COUNTER = Program("counter", ("sh", "-c", _COUNT), Script())


@pytest.fixture(scope="module", params=["stand-in", "criu"])
def real(request: pytest.FixtureRequest) -> bool:
    """Whether CRIU restores the processes; else a stand-in, which starts the program."""
    if request.param == "criu" and shutil.which("criu") is None:
        pytest.skip("criu is not on PATH")
    return bool(request.param == "criu")


@pytest.fixture(scope="module")
def server(isolation: Isolation, real: bool) -> Iterator[PrivateCriServer]:
    with pytest.MonkeyPatch.context() as patched:
        if not real:
            stand_in(isolation.home / "bin")
            patched.setenv("PATH", f"{isolation.home}/bin:{os.environ['PATH']}")
        made = PrivateCriServer(
            isolation.home / "r",
            f"{isolation.bridge}r",
            isolation.further_subnet("r"),
            further={"enable_experimental_restore_via_create": True},
        )
        try:
            made.start()
            made.load(ImageSpec(BUSYBOX))
            yield made
        finally:
            made.destroy()


@pytest.fixture
async def runtime(server: PrivateCriServer, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(server.endpoint, tmp_path) as made:
        yield made


def counts(log: Path) -> list[int]:
    found = log.read_text().splitlines() if log.exists() else []
    return [int(line.split()[-1]) for line in found if "count" in line]


def of_archive(archive: Path) -> int:
    """The count up to which the container had come."""
    with tarfile.open(archive) as tar:
        log = tar.extractfile("container.log")
        assert log is not None
        return int(log.read().split()[-1])


async def goes_on(log: Path, reached: int, real: bool) -> None:
    """Wait until the log goes on: without a gap from the checkpoint's, and without a second start."""

    async def has_more() -> bool:
        return len(counts(log)) > reached + 5

    assert await until_answer(has_more)
    assert_continued(log, reached, real)


def assert_continued(log: Path, reached: int, real: bool) -> None:
    seen = counts(log)
    begin = reached if real else 0
    assert seen[:reached] == list(range(1, reached + 1))
    assert seen[reached : reached + 5] == list(range(begin + 1, begin + 6))


async def output(runtime: Runtime, container: ContainerID, command: str) -> str:
    done = await runtime.client.exec_sync(container, ["sh", "-c", command], 20)
    return done.stdout.decode() + done.stderr.decode()


async def dumped(runtime: Runtime, archive: Path) -> int:
    """Run a counter, write its checkpoint, and remove its pod; returns the count up to which it came."""
    container = await runtime.start(COUNTER)
    log = Path((await runtime.status(container)).log_path)

    async def counted() -> bool:
        return len(counts(log)) > 5

    await until_answer(counted)
    await runtime.client.checkpoint_container(container, str(archive), 60)
    await runtime.clean()
    log.unlink()
    return of_archive(archive)


async def restored(runtime: Runtime, image: str) -> ContainerID:
    config = runtime.container_config(COUNTER)
    config.image.image = image
    return await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())


async def test_counter_goes_on_in_a_new_pod(runtime: Runtime, real: bool, tmp_path: Path) -> None:
    archive = tmp_path / "counter.tar"
    reached = await dumped(runtime, archive)
    container = await restored(runtime, str(archive))
    created = await runtime.status(container)
    assert created.state == pb.CONTAINER_CREATED and created.image.image != str(archive)
    await runtime.client.start_container(container)
    status = await runtime.status(container)
    assert status.state == pb.CONTAINER_RUNNING and status.image_ref == created.image_ref
    await goes_on(Path(status.log_path), reached, real)
    words = await output(runtime, container, "cat /made/file; stat -c %a /made/file; ls /etc/group; hostname")
    assert words.split()[:2] == ["kept", "640"] and "No such file" in words
    await runtime.client.stop_container(container, 20)
    assert (await runtime.status(container)).exit_code == 9


async def test_server_restarts_between_creation_and_start_and_while_it_runs(
    runtime: Runtime, server: PrivateCriServer, real: bool, tmp_path: Path
) -> None:
    archive, again = tmp_path / "counter.tar", tmp_path / "again.tar"
    reached = await dumped(runtime, archive)
    container = await restored(runtime, str(archive))
    archive.unlink()
    server.stop()
    server.start()
    await runtime.client.start_container(container)
    log = Path((await runtime.status(container)).log_path)
    await goes_on(log, reached, real)
    server.stop()
    server.start()
    before = len(counts(log))

    async def counted() -> bool:
        return len(counts(log)) > before

    assert await until_answer(counted)
    assert not list((server.home / "root" / "restores").iterdir())
    if not real:
        return
    # It can be dumped again.
    await runtime.client.checkpoint_container(container, str(again), 60)
    await runtime.client.stop_container(container, 20)
    assert (await runtime.status(container)).exit_code == 9
    await runtime.clean()
    log.unlink()
    third = await restored(runtime, str(again))
    await runtime.client.start_container(third)
    await goes_on(log, of_archive(again), real)


async def test_failed_restore_leaves_nothing(
    runtime: Runtime, server: PrivateCriServer, real: bool, tmp_path: Path
) -> None:
    archive, broken = tmp_path / "counter.tar", tmp_path / "broken.tar"
    await dumped(runtime, archive)
    with tarfile.open(archive) as old, tarfile.open(broken, "w") as new:
        for member in old.getmembers():
            if member.name == "checkpoint/pstree.img":
                member.size = 0
                new.addfile(member)
            else:
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
    container = await restored(runtime, str(broken))
    with pytest.raises(CriError, match=f"failed to restore container {container}"):
        await runtime.client.start_container(container)
    status = await runtime.status(container)
    assert (status.state, status.reason, status.exit_code) == (pb.CONTAINER_EXITED, "StartError", 128)
    await runtime.client.remove_container(container)
    assert not list((server.home / "root" / "restores").iterdir())
    assert not list((server.home / "run" / "bundles").glob(f"{container}*"))
    assert str(container) not in Path("/proc/self/mountinfo").read_text()
    # The sandbox takes another container.
    config = runtime.container_config(COUNTER, attempt=1)
    config.image.image = str(archive)
    second = await runtime.client.create_container(runtime.sandboxes[-1], config, runtime.pod_config())
    await runtime.client.start_container(second)
    assert (await runtime.status(second)).state == pb.CONTAINER_RUNNING


async def test_archives_that_are_refused(runtime: Runtime, server: PrivateCriServer, tmp_path: Path) -> None:
    """With the reason, and nothing is left of them."""

    def tar(name: str, *members: str, kind: bytes = tarfile.REGTYPE) -> str:
        with tarfile.open(tmp_path / name, "w") as made:
            for member in members:
                info = tarfile.TarInfo(member)
                info.type, info.linkname = kind, "/etc/shadow" if kind == tarfile.SYMTYPE else ""
                made.addfile(info)
        return str(tmp_path / name)

    (tmp_path / "noise").write_bytes(os.urandom(10_000))
    for image, words in (
        (tar("empty.tar"), "is not a checkpoint"),
        (tar("link.tar", "container.log", kind=tarfile.SYMTYPE), "'container.log' is neither a file nor a directory"),
        (tar("device.tar", "config.dump", kind=tarfile.CHRTYPE), "neither a file nor a directory"),
        (tar("out.tar", "../../x"), "leads out of"),
        (tar("deep.tar", "/".join(["d"] * 40)), "has directories deeper than 32 levels"),
        (tar("many.tar", *(f"{number}" for number in range(100_001))), "more than 100000 files"),
        (str(tmp_path / "noise"), "noise"),
        ("/dev/zero", "/dev/zero"),
        (str(tmp_path), "not a regular file"),
        (str(tmp_path / "missing.tar"), "missing.tar"),
    ):
        with pytest.raises(CriError, match=words):
            await restored(runtime, image)
    assert not list((server.home / "root" / "restores").iterdir())
    assert not await runtime.client.list_containers()


def as_image(archive: Path, reference: str) -> ImageSpec:
    """The image of a checkpoint, as ``buildah add`` and an annotation make it of an archive."""
    with tarfile.open(archive) as tar:
        read = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        files = {name: file.read() for name, file in read.items() if file is not None}
    annotations = {"org.criu.checkpoint.container.name": "counter"}
    return ImageSpec(reference, (), environment=(), files=files, annotations=annotations, bare=True)


async def test_checkpoint_image_is_restored_after_a_restart_of_the_server(
    runtime: Runtime, server: PrivateCriServer, real: bool, tmp_path: Path
) -> None:
    archive = tmp_path / "counter.tar"
    reached = await dumped(runtime, archive)
    name = "localhost/pykubelet/checkpoint:1"
    server.load(as_image(archive, name))
    container = await restored(runtime, name)
    server.stop()
    server.start()
    await runtime.client.start_container(container)
    status = await runtime.status(container)
    await goes_on(Path(status.log_path), reached, real)
    assert status.annotations["checkpointImage"] == name
    mounted = Path("/proc/self/mounts").read_text()
    assert f"{container}/rootfs" in mounted and f"{container}-checkpoint" not in mounted


def test_pod_with_a_checkpoint_image_is_restored_by_the_agent(
    isolation: Isolation, server: PrivateCriServer, real: bool, tmp_path: Path
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
        reached = of_archive(archive)
        (agent.manifests / "first").unlink()
        name = "localhost/pykubelet/checkpoint:2"
        server.load(as_image(archive, name))
        again = container("counter", COUNTER.command) | {"image": name}
        agent.write("second", pod("second", again))
        agent.wait_running("second")
        log = next(agent.pod_logs.glob("default_second*")) / "counter" / "0.log"
        wait_for(lambda: len(counts(log)) > reached + 10, 20, agent.log_tail)
        assert_continued(log, reached, real)
        assert "count" in agent.cli("logs", "second").stdout
        agent.remove_all_pods()
        assert agent.stop() == 0
    finally:
        agent.destroy()


async def _checkpoint(endpoint: str, identity: str, archive: Path) -> None:
    async with CriClient.connect(endpoint) as client:
        await client.checkpoint_container(ContainerID(identity), str(archive), 60)
