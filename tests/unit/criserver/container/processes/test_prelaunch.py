"""Pre-launches: used by StartContainer, and undone by all other calls."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.criserver.container import Container, build_containers
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.types import ContainerPhase
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import settle, until
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in


def _runtime_directory(rig: Rig, container: Container) -> Path:
    return rig.sandbox.runtime(SANDBOX).oci.root / container.id


async def _waiting(rig: Rig, container: Container) -> int:
    """The PID of the process that waits for the start."""
    note = rig.deps.directories.bundle(container.id) / "pid"
    await until(lambda: note.exists() and note.read_text() != "")
    return int(note.read_text())


def _assert_undone(rig: Rig, container: Container, pid: int) -> None:
    bundle = rig.deps.directories.bundle(container.id)
    assert {path.name for path in bundle.glob("*")} <= {"config.json"}
    assert not _runtime_directory(rig, container).exists()
    assert not (rig.deps.directories.exits / container.id).exists()
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_start_runs_the_prelaunched_program(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", f"echo x >> {tmp_path}/ran; exec sleep 60")
        pid = await _waiting(rig, container)
        assert container.record.phase is ContainerPhase.CREATED
        assert not (tmp_path / "ran").exists()
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.record.process is not None
        assert container.record.process.pid == pid
        await until(lambda: (tmp_path / "ran").exists() and (tmp_path / "ran").read_text())
        assert not (tmp_path / "oci" / "started-by-program").exists()
        await rig.containers.lifecycle.remover.remove(container.id)
        assert (tmp_path / "ran").read_text() == "x\n"


async def _stop(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.stopper.stop(container.id, 10)


async def _stop_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.stop_all(SANDBOX)


async def _remove(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.remover.remove(container.id)


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("act", [_stop, _stop_all, _remove])
async def test_prelaunch_is_undone_by_stop_and_removal(
    tmp_path: Path, act: Callable[[Rig, Container], Awaitable[None]], begun: bool
) -> None:
    """No process, log or event remains."""
    async with rig_in(tmp_path) as rig, aclosing(rig.scope.events.subscribe()) as events:
        first = asyncio.ensure_future(anext(events))
        rig.sandbox.logs = str(tmp_path / "logs")
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container) if begun else 1 << 30
        launch = rig.containers.lifecycle.starter._launcher._prelaunches[container.id].task
        assert launch is not None
        await act(rig, container)
        await asyncio.wait({launch})
        _assert_undone(rig, container, pid)
        assert list((tmp_path / "logs").iterdir()) == []
        await rig.containers.lifecycle.remover.remove(container.id)
        assert [(await first).kind, (await anext(events)).kind] == [EventKind.CREATED, EventKind.DELETED]


async def test_container_whose_prelaunch_was_undone_can_be_started(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container)
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.record.process is not None
        assert container.record.process.pid != pid
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_prelaunch_in_a_stopped_sandbox_is_undone(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container)
        await rig.containers.of_sandbox.stop_all(SANDBOX)
        rig.sandbox.ready = False
        with pytest.raises(Permanent, match="not ready"):
            await rig.containers.lifecycle.starter.start(container.id)
        _assert_undone(rig, container, pid)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_update_undoes_the_prelaunch_and_launches_again(tmp_path: Path) -> None:
    """It is launched again with them."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        before = await _waiting(rig, container)
        await rig.containers.updater.update(container.id, pb.LinuxContainerResources(cpu_shares=99))
        assert '"shares": 99' in (rig.deps.directories.bundle(container.id) / "config.json").read_text()
        after = await _waiting(rig, container)
        assert before != after
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.record.process is not None
        assert container.record.process.pid == after
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_prelaunched_process_that_died_is_launched_again(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container)
        await rig.launched(container)
        os.kill(pid, signal.SIGKILL)
        await until((rig.deps.directories.exits / container.id).exists)
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.running
        assert not (rig.deps.directories.exits / container.id).exists()
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_container_that_is_never_started_is_undone_after_the_timeout(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        containers = rig.containers = build_containers(replace(rig.deps, prelaunch_timeout=0.7 * PATIENCE))
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container)
        await until(lambda: not _runtime_directory(rig, container).exists() and not _lives(pid))
        await containers.lifecycle.starter.start(container.id)
        assert container.running
        await settle(0.9 * PATIENCE)
        assert container.running
        await containers.lifecycle.remover.remove(container.id)


async def test_failed_prelaunch_is_reported_by_the_start(tmp_path: Path) -> None:
    """The start launches again, since the cause may be gone."""
    async with rig_in(tmp_path) as rig:
        program = tmp_path / "late"
        container = await rig.create(str(program))
        bad = await rig.create("/no/such/program", attempt=1)
        await rig.launched(container, bad)
        assert {container.record.phase, bad.record.phase} == {ContainerPhase.CREATED}
        program.write_text("#!/bin/sh\nexec sleep 60\n")
        program.chmod(0o755)
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.running
        with pytest.raises(Permanent, match="No such file"):
            await rig.containers.lifecycle.starter.start(bad.id)
        assert (bad.record.exit_code, bad.record.reason) == (128, "StartError")
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_container_with_cdi_devices_is_not_prelaunched(tmp_path: Path) -> None:
    """CDI devices may have hooks: the OCI runtime's program starts such a container."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        container.config.CDI_devices.add(name="vendor.example/device=one")
        rig.containers.lifecycle.starter._launcher.begin(container)
        assert not rig.containers.lifecycle.starter._launcher.is_prelaunched(container)
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.running
        assert (tmp_path / "oci" / "started-by-program").exists()
        await rig.containers.lifecycle.remover.remove(container.id)


@pytest.mark.parametrize("dead", [True, False])
async def test_next_server_undoes_the_prelaunch(tmp_path: Path, dead: bool) -> None:
    """The server was killed; the waiting process may have died, too."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", f"echo x >> {tmp_path}/ran; exec sleep 60")
        pid = await _waiting(rig, container)
        await rig.launched(container)
        rig.forget_launches()
    if dead:
        os.kill(pid, signal.SIGKILL)
        await until((rig.deps.directories.exits / container.id).exists)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        found = rig.containers.table.get(container.id)
        assert found.record.phase is ContainerPhase.CREATED
        _assert_undone(rig, found, pid)
        await rig.containers.lifecycle.starter.start(found.id)
        await until(lambda: (tmp_path / "ran").exists() and (tmp_path / "ran").read_text() == "x\n")
        await rig.containers.lifecycle.remover.remove(found.id)
        assert (tmp_path / "ran").read_text() == "x\n"


async def test_stopped_server_leaves_no_prelaunch(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        pid = await _waiting(rig, container)
        await rig.launched(container)
    _assert_undone(rig, container, pid)
