"""The life of containers, with plain programs in place of the OCI runtime's."""

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound, Permanent
from pykubelet.criserver.container.recovery import ContainerRecovery
from pykubelet.criserver.events import EventKind
from pykubelet.criserver.types import ContainerPhase
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.container.rig import SANDBOX, rig_in


async def test_from_creation_to_removal(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig, aclosing(rig.events.subscribe()) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        container = await rig.create()
        assert (await first).kind is EventKind.CREATED
        assert container.record.phase is ContainerPhase.CREATED
        assert (rig.images.folder / container.id / "data").is_dir()
        await rig.manager.start(container.id)
        assert container.running
        assert container.record.started_at >= container.record.created_at
        await rig.manager.stop(container.id, 10)
        record = container.record
        assert (record.phase, record.exit_code, record.reason) == (ContainerPhase.EXITED, 130, "Error")
        assert record.stop_signal == "SIGINT"
        await rig.manager.remove(container.id)
        await rig.manager.remove(container.id)
        assert rig.images.held == set()
        assert list((tmp_path / "bundles").iterdir()) == []
        assert (await rig.store.load())[1] == []
        kinds = [(await anext(events)).kind for _ in range(3)]
        assert kinds == [EventKind.STARTED, EventKind.STOPPED, EventKind.DELETED]


async def test_an_exit_by_itself(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", "exit 3")
        await rig.manager.start(container.id)
        await container.ended.wait()
        assert (container.record.exit_code, container.record.reason) == (3, "Error")
        with pytest.raises(Permanent, match="only a created one"):
            await rig.manager.start(container.id)
        with pytest.raises(Permanent, match="not running"):
            rig.manager.running(container.id)


async def test_who_was_killed_for_want_of_memory(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        rig.oom_kills = 1
        container = await rig.create("sh", "-c", "kill -9 $$")
        await rig.manager.start(container.id)
        await container.ended.wait()
        assert (container.record.exit_code, container.record.reason) == (137, "OOMKilled")


async def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", "trap '' INT; while :; do sleep 0.02; done")
        await rig.manager.start(container.id)
        await asyncio.sleep(0.2)  # the shell sets its trap
        await rig.manager.stop(container.id, 0.1)
        assert container.record.exit_code == 137


async def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("/no/such/program")
        with pytest.raises(Permanent, match="No such file"):
            await rig.manager.start(container.id)
        record = container.record
        assert (record.phase, record.exit_code, record.reason) == (ContainerPhase.EXITED, 128, "StartError")


async def test_what_cannot_be_created_leaves_nothing(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        with pytest.raises(NotFound, match="is not present"):
            await rig.create(image="absent:1")
        await rig.create()
        with pytest.raises(Conflict, match="is reserved for"):
            await rig.create()
        again = await rig.create(attempt=1)
        assert len(rig.images.held) == 2
        rig.sandbox.ready = False
        with pytest.raises(Permanent, match="not ready"):
            await rig.create(attempt=2)
        with pytest.raises(Permanent, match="not ready"):
            await rig.manager.start(again.id)
        assert len((await rig.store.load())[1]) == 2


async def test_limits_of_a_created_container(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        await rig.manager.update(container.id, pb.LinuxContainerResources(cpu_shares=99))
        await rig.manager.update(container.id, pb.LinuxContainerResources(memory_limit_in_bytes=1 << 20))
        asked = container.config.linux.resources
        assert (asked.cpu_shares, asked.memory_limit_in_bytes) == (99, 1 << 20)
        assert '"shares": 99' in (tmp_path / "bundles" / container.id / "config.json").read_text()


async def test_ids_may_be_shortened(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        assert rig.manager.get(container.id[:12]) is container
        for unknown in ("", "nope"):
            with pytest.raises(NotFound):
                rig.manager.get(unknown)


async def test_the_next_server_adopts_what_runs_and_learns_what_ended(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        running = await rig.create()
        ended = await rig.create("sh", "-c", "sleep 0.3; exit 7", attempt=1)
        killed = await rig.create(attempt=2)
        created = await rig.create(attempt=3)
        for container in (running, ended, killed):
            await rig.manager.start(container.id)
    assert killed.record.monitor is not None
    assert killed.record.process is not None
    os.kill(killed.record.monitor.pid, signal.SIGKILL)
    os.kill(killed.record.process.pid, signal.SIGKILL)
    while not (tmp_path / "exits" / ended.id).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        for container, phase, code, reason in (
            (running, ContainerPhase.RUNNING, 0, ""),
            (ended, ContainerPhase.EXITED, 7, "Error"),
            (killed, ContainerPhase.EXITED, 255, "Unknown"),
            (created, ContainerPhase.CREATED, 0, ""),
        ):
            found = rig.manager.get(container.id)
            if phase is ContainerPhase.EXITED:
                await found.ended.wait()
            assert (found.record.phase, found.record.exit_code, found.record.reason) == (phase, code, reason)
        await rig.manager.stop_all(SANDBOX)
        assert rig.manager.get(running.id).record.exit_code == 137
        await rig.manager.remove_all(SANDBOX)
        assert (await rig.store.load())[1] == []
        assert list((tmp_path / "bundles").iterdir()) == []


async def test_strays_are_removed(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        stray = await rig.create()
        await rig.manager.start(stray.id)
    (tmp_path / "state.db").unlink()
    async with rig_in(tmp_path) as rig:
        await ContainerRecovery(rig.manager, rig.deps).remove_strays(set())
        assert list((tmp_path / "bundles").iterdir()) == []
    assert stray.record.process is not None
    assert not Path(f"/proc/{stray.record.process.pid}/environ").exists() or not _runs(stray.record.process.pid)


def _runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_an_ended_container_holds_no_volume(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        running, idle = await rig.create("sleep", "60"), await rig.create("sleep", "60", attempt=1)
        for container in (running, idle):
            container.config.mounts.add(container_path="/v", host_path="/v", uidMappings=[pb.IDMapping(length=1)])
            (rig.deps.folders.mapped / container.id / "0").mkdir(parents=True)
            (rig.deps.folders.mapped / container.id / "1").touch()
        await rig.manager.start(running.id)
        await rig.manager.stop(running.id, 0)
        assert [path.name for path in rig.deps.folders.mapped.iterdir()] == [idle.id]
        await rig.manager.stop_all(SANDBOX)
        assert list(rig.deps.folders.mapped.iterdir()) == []
        await rig.manager.remove_all(SANDBOX)
