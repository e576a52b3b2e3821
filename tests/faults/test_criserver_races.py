"""Calls about a pod that another call is stopping or removing, on the real runtime: nothing runs or stays behind it."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.linux import procfs
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_STAGES: Final = ("create-begins", "create-ends", "start-begins", "start-ends")
_HANDLER = "gated"
_GATED = """#!/bin/sh
gate() {{
  test "$(cat {home}/gate)" = "$1" || return 0
  : >{home}/reached
  until test -e {home}/go; do sleep 0.05; done
}}
for word; do
  case $word in
    create|start) gate $word-begins; {runtime} "$@"; code=$?; gate $word-ends; exit $code ;;
  esac
done
exec {runtime} "$@"
"""
"""A runtime that waits at a stage of its calls."""


@dataclass
class Races:
    """A server, and what its containers have in their command lines."""

    server: PrivateCriServer
    cgroup: str
    mark: str

    @contextmanager
    def held_at(self, stage: str) -> Iterator[tuple[Path, Path]]:
        """Hold the runtime's calls at a stage. Yields the files that appear there, and that let them go on."""
        home = self.server.home
        reached, go = home / "reached", home / "go"
        go.unlink(missing_ok=True)
        (home / "gate").write_text(stage)
        try:
            yield reached, go
        finally:
            (home / "gate").write_text("")
            go.touch()
            reached.unlink(missing_ok=True)

    def sandbox(self, name: str) -> pb.PodSandboxConfig:
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="n", uid=name),
            linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"/{self.cgroup}/{name}"),
        )
        config.linux.security_context.namespace_options.network = pb.NODE
        return config

    def container(self) -> pb.ContainerConfig:
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="c"),
            image=pb.ImageSpec(image=BUSYBOX),
            command=["sh", "-c", f": {self.mark}; while :; do sleep 1; done"],
        )

    def running(self) -> list[int]:
        """The pids of programs of containers, which have the mark among their arguments."""
        mark = self.mark.encode()
        return [pid for pid in procfs.pids() if any(mark in word for word in procfs.arguments(pid) or ())]


@pytest.fixture(scope="module")
def races(isolation: Isolation) -> Iterator[Races]:
    home, cgroup = isolation.home / "g", f"{isolation.cgroup_root}-g"
    home.mkdir(parents=True)
    script, runtime = home / _HANDLER, shutil.which("runc")
    script.write_text(_GATED.format(runtime=runtime, home=home))
    script.chmod(0o755)
    (home / "gate").write_text("")
    handlers = {_HANDLER: str(script)}
    server = PrivateCriServer(home, f"{isolation.bridge}g", isolation.further_subnet("g"), handlers=handlers)
    try:
        server.write_configuration()
        server.load(ImageSpec(BUSYBOX))
        server.start()
        yield Races(server, cgroup, f"race-of-{isolation.bridge}")
    finally:
        server.destroy()
        remove_cgroups(cgroup)


async def _created(races: Races, client: CriClient, name: str) -> tuple[SandboxID, ContainerID]:
    config = races.sandbox(name)
    sandbox = await client.run_pod_sandbox(config, _HANDLER)
    return sandbox, await client.create_container(sandbox, races.container(), config)


async def test_container_is_started_and_seen(races: Races) -> None:
    """Without a race a container runs after its start and ends with its sandbox: the tests below rely on it."""
    async with CriClient.connect(races.server.endpoint) as client:
        sandbox, container = await _created(races, client, "undisturbed")
        await client.start_container(container)
        await until(races.running)
        await client.stop_pod_sandbox(sandbox)
        assert races.running() == []
        await client.remove_pod_sandbox(sandbox)
        assert not await client.list_containers()


@pytest.mark.parametrize("stage", _STAGES)
@pytest.mark.parametrize("removed", [False, True], ids=["stopped", "removed"])
async def test_container_whose_sandbox_ends_during_its_start_does_not_run(
    races: Races, stage: str, removed: bool
) -> None:
    async with CriClient.connect(races.server.endpoint) as client:
        config = races.sandbox(f"{stage}-{removed}")
        sandbox = await client.run_pod_sandbox(config, _HANDLER)

        async def start() -> None:
            await client.start_container(await client.create_container(sandbox, races.container(), config))

        with races.held_at(stage) as (reached, go):
            starting = asyncio.create_task(start())
            await until(reached.exists)
            ending = asyncio.create_task((client.remove_pod_sandbox if removed else client.stop_pod_sandbox)(sandbox))
            await asyncio.wait({ending}, timeout=1.0)  # it may wait for the start, or cancel it
            go.touch()
            await ending
            assert not [each.id for each in await client.list_containers() if each.state == pb.CONTAINER_RUNNING]
            assert races.running() == []
            await asyncio.wait({starting})
        assert not [each.id for each in await client.list_containers() if each.state == pb.CONTAINER_RUNNING]
        assert races.running() == []
        assert isinstance(starting.exception(), PykubeletError)
        await client.remove_pod_sandbox(sandbox)
        assert not await client.list_containers()
