"""SIGKILL of the runtime server while it creates, starts and removes a container that is restored from a checkpoint."""

import asyncio
import os
import random
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.criu import stand_in
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.killstage import Act, Pod, Stage
from pykubelet.testing.leakcheck import snapshot
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass
class RestoredPod(Pod):
    """A pod whose container is restored from an archive."""

    archive: Path = Path()
    real: bool = False
    """By CRIU: the program does not start again."""

    def container_config(self) -> pb.ContainerConfig:
        config = super().container_config()
        config.image.image = str(self.archive)
        return config

    def assert_goes_on(self, kills: int = 0) -> None:
        """AssertionError unless the program was restored, and writes to the log.

        A server that is killed before it has noted the start leaves processes without a monitor: the next server undoes
        that, and the start restores them again. Those of CRIU do not begin again then, those of the stand-in do.
        """
        size = self.log.stat().st_size
        wait_for(lambda: self.log.stat().st_size > size, 10, lambda: "the program does not go on")
        if self.real:
            assert self.runs == 0
        else:
            assert 1 <= self.runs <= 1 + kills


@pytest.fixture(scope="module", params=["stand-in", "criu"])
def real(request: pytest.FixtureRequest) -> bool:
    """Whether CRIU restores the processes; else a stand-in, which starts the program."""
    if request.param == "criu" and shutil.which("criu") is None:
        pytest.skip("criu is not on PATH")
    return bool(request.param == "criu")


@pytest.fixture(scope="module")
def stage(isolation: Isolation, real: bool) -> Iterator[Stage]:
    home = isolation.home / "k"
    with pytest.MonkeyPatch.context() as patched:
        if not real:
            stand_in(isolation.home / "bin")
            patched.setenv("PATH", f"{isolation.home}/bin:{os.environ['PATH']}")
        made = PrivateCriServer(
            home,
            f"{isolation.bridge}k",
            isolation.further_subnet("k"),
            "pykubelet.testing.killpoints",
            further={"enable_experimental_restore_via_create": True},
        )
        cgroup = f"{isolation.cgroup_root}-k"
        try:
            made.start()
            made.load(ImageSpec(BUSYBOX, volumes=("/volume",), files={"volume/given": b"content"}))
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            directory = isolation.home / "notes"
            directory.mkdir(exist_ok=True)
            with asyncio.Runner() as runner:
                yield Stage(made, cgroup, directory, port, BUSYBOX, runner)
        finally:
            made.destroy()
            remove_cgroups(cgroup)
            shutil.rmtree(isolation.home / "notes", ignore_errors=True)


@pytest.fixture(scope="module")
def archive(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a pod that is gone."""
    path = tmp_path_factory.mktemp("checkpoint") / "main.tar"
    pod = Pod(stage, "dumped")

    async def dump(client: CriClient) -> None:
        await client.checkpoint_container(pod.container, str(path), 60)

    stage.do(pod.up)
    pod.assert_ran_once()
    stage.do(dump)
    stage.do(pod.down)
    return path


@pytest.mark.parametrize("started", [True, False])
def test_server_killed_at_each_step_of_a_restoration_leaks_nothing(
    stage: Stage, archive: Path, real: bool, started: bool, kills: int, luck: random.Random
) -> None:
    """CreateContainer and StartContainer; or CreateContainer and the removal of a container that never ran."""

    def act(pod: Pod) -> Act:
        async def life(client: CriClient) -> None:
            assert await pod.make(client) == pb.CONTAINER_CREATED
            await pod.down(client)

        return pod.up if started else life

    def made(number: int) -> RestoredPod:
        return RestoredPod(stage, f"{started}-{number}", archive=archive, real=real)

    first = made(0)
    total = stage.steps(act(first))
    if started:
        first.assert_goes_on()
    stage.do(first.down)
    before = snapshot(stage.scope)
    chosen = sorted(luck.sample(range(1, total + 1), min(kills, total)))
    died = 0
    for step in chosen:
        pod = made(step)
        died += stage.killed(act(pod), step)
        print(f"{died} killed, last step {stage.last_step()}")
        stage.server.start()
        if started:
            stage.do(pod.up)
            pod.assert_goes_on(kills=1)
        stage.do(pod.down)
        assert started or pod.runs == 0
        stage.assert_no_leaks(before)
        assert not list((stage.server.home / "root" / "restores").iterdir())
    print(f"{died} kills at {len(chosen)} of {total} steps: 0 lost, 0 doubled, 0 leaked")
    assert died >= 0.7 * len(chosen) - 1, "the steps are counted wrongly"
