"""Concurrent calls about one container or its sandbox, and failures in the middle of a call."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.criserver.conmon import Conmon, Exit, LaunchedContainer, LaunchParameters
from pykubelet.criserver.container import Container
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import reference
from pykubelet.criserver.runtimes import monitored
from pykubelet.criserver.types import ContainerID, ContainerPhase, ProcessRef, UserNamespace
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in


@dataclass
class Gate:
    """A point at which work waits until the test releases it."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()


def _before_launch(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, launch = Gate(), Conmon.launch

    async def late(conmon: Conmon, what: LaunchParameters) -> LaunchedContainer:
        await gate.passed()
        return await launch(conmon, what)

    monkeypatch.setattr(Conmon, "launch", late)
    return gate


def _before_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, start = Gate(), OciRuntime.start

    async def late(runtime: OciRuntime, container: ContainerID, process: ProcessRef | None = None) -> None:
        await gate.passed()
        await start(runtime, container, process)

    monkeypatch.setattr(OciRuntime, "start", late)
    return gate


def _after_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Wait at the point where the program runs, but the record is not updated yet."""
    gate, start = Gate(), OciRuntime.start

    async def late(runtime: OciRuntime, container: ContainerID, process: ProcessRef | None = None) -> None:
        await start(runtime, container, process)
        await gate.passed()

    monkeypatch.setattr(OciRuntime, "start", late)
    return gate


def _before_note(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, note = Gate(), rig.store.containers.note

    async def late(record: object) -> None:
        await gate.passed()
        await note(record)  # type: ignore[arg-type]  # as the store's

    monkeypatch.setattr(rig.store.containers, "note", late)
    return gate


async def _stop(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.stopper.stop(container.id, 0)


async def _stop_all(rig: Rig, container: Container) -> None:
    rig.sandbox.ready = False  # as the sandbox's stop does first
    await rig.containers.of_sandbox.stop_all(SANDBOX)


async def _remove(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.remover.remove(container.id)


async def _remove_all(rig: Rig, container: Container) -> None:
    rig.sandbox.ready = False
    await rig.containers.of_sandbox.remove_all(SANDBOX)


def _lives(container: Container, directory: Path) -> bool:
    """Whether any process of it runs, or its OCI state exists."""
    marks = [str(directory / "bundles" / container.id), str(directory / "oci" / container.id)]
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdecimal() else ""
            ended = line and (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX"
        except OSError:
            continue
        if not ended and any(mark in line for mark in marks):
            return True
    return (directory / "oci" / container.id).exists()


@pytest.mark.parametrize("where", [_before_launch, _before_start, _after_start, _before_note])
@pytest.mark.parametrize("act", [_stop, _stop_all, _remove, _remove_all])
async def test_start_in_progress_is_cancelled_by_a_stop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Rig, Container], Awaitable[None]],
    where: Callable[[Rig, pytest.MonkeyPatch], Gate],
) -> None:
    async with rig_in(tmp_path) as rig:
        gate = where(rig, monkeypatch)
        container = await rig.create("sleep", "60")
        start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
        await gate.reached.wait()
        stop = asyncio.ensure_future(act(rig, container))
        await asyncio.wait({stop}, timeout=0.1)
        gate.opened.set()
        await stop
        assert not container.running
        with suppress(Permanent):
            await start
        assert not container.running
        assert container.record.phase in (ContainerPhase.EXITED, ContainerPhase.REMOVING)
        await until(lambda: not _lives(container, tmp_path))
        rows = {record.id: record for record in (await rig.store.load())[1]}
        if act is _remove:
            assert rows == {}
        elif act is not _remove_all:
            assert rows == {container.id: container.record}
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_start_queued_behind_a_removal_is_rejected(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        remove, start = rig.containers.lifecycle.remover.remove, rig.containers.lifecycle.starter.start
        calls = [remove(container.id), start(container.id), remove(container.id)]
        removed, _, again = await asyncio.gather(*calls, return_exceptions=True)
        assert (removed, again) == (None, None)
        assert list(rig.containers.table.visible()) == []
        assert (await rig.store.load())[1] == []
        await until(lambda: not _lives(container, tmp_path))


@pytest.mark.parametrize("act", [_stop_all, _remove_all])
async def test_creation_in_progress_is_cancelled_by_a_stop_of_its_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Rig, Container | None], Awaitable[None]]
) -> None:
    async with rig_in(tmp_path) as rig:
        gate, prepare = Gate(), rig.images.prepare

        async def late(image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
            found = await prepare(image_id, container, user)
            await gate.passed()
            return found

        monkeypatch.setattr(rig.images, "prepare", late)
        creation = asyncio.ensure_future(rig.create())
        await gate.reached.wait()
        await act(rig, None)
        with pytest.raises(Permanent, match="creation of container app_0 was cancelled: its sandbox was"):
            await creation
        assert list(rig.containers.table.visible()) == rig.containers.table.of_sandbox(SANDBOX) == []
        assert (await rig.store.load())[1] == []
        assert rig.images.held == set()
        assert list((tmp_path / "bundles").iterdir()) == []


async def test_failed_creation_that_cannot_be_undone_releases_its_name_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        prepare, release = rig.images.prepare, rig.images.release

        async def broken(*_: object) -> Path:
            raise Transient("an I/O error")

        monkeypatch.setattr(rig.images, "prepare", broken)
        monkeypatch.setattr(rig.images, "release", broken)
        with pytest.raises(Transient, match="an I/O error"):
            await rig.create()
        assert list(rig.containers.table.visible()) == []
        assert len(rig.containers.table.rootfs_names()) == 1, "it is remembered"
        monkeypatch.setattr(rig.images, "prepare", prepare)
        with pytest.raises(Transient, match="an I/O error"):
            await rig.create()
        monkeypatch.setattr(rig.images, "release", release)
        container = await rig.create()
        assert rig.containers.table.of_sandbox(SANDBOX) == [container]
        assert [record.id for record in (await rig.store.load())[1]] == [container.id]
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_failed_creation_leaves_neither_record_nor_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:

        async def broken(*_: object) -> Path:
            raise OSError(5, "an I/O error")

        monkeypatch.setattr(rig.images, "prepare", broken)
        with pytest.raises(OSError, match="an I/O error"):
            await rig.create()
        assert rig.containers.table.of_sandbox(SANDBOX) == []
        assert await rig.store.load() == ([], [])


@pytest.mark.parametrize("error", [Permanent("refused"), ValueError("unforeseen")])
async def test_failed_start_is_undone_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await until((rig.deps.directories.bundle(container.id) / "pid").exists)

        async def refused(*_: object) -> None:
            raise error

        monkeypatch.setattr(OciRuntime, "start", refused)
        with pytest.raises(type(error)):
            await rig.containers.lifecycle.starter.start(container.id)
        assert not _lives(container, tmp_path)
        record = container.record
        assert (record.phase, record.exit_code, record.reason) == (ContainerPhase.EXITED, 128, "StartError")
        assert (await rig.store.load())[1] == [record]
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_container_that_could_not_be_removed_is_listed_and_removed_by_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        release = rig.images.release

        async def broken(name: ContainerID) -> None:
            assert container not in list(rig.containers.table.visible()), "it is being removed"
            raise Transient("an I/O error")

        monkeypatch.setattr(rig.images, "release", broken)
        with pytest.raises(Transient, match="an I/O error"):
            await rig.containers.lifecycle.remover.remove(container.id)
        assert list(rig.containers.table.visible()) == [container]
        assert (await rig.store.load())[1] == [container.record]
        monkeypatch.setattr(rig.images, "release", release)
        await rig.containers.lifecycle.remover.remove(container.id)
        assert list(rig.containers.table.visible()) == []


async def test_stop_all_with_one_failure_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path) as rig:
        first, second = await rig.create("sleep", "60"), await rig.create("sleep", "60", attempt=1)
        for container in (first, second):
            await rig.containers.lifecycle.starter.start(container.id)
        stop = rig.containers.lifecycle.stopper.end

        async def hanging(container: Container, grace: float, why: str = "") -> None:
            if container is first:
                raise Transient("it hangs in the kernel")
            await stop(container, grace, why)

        monkeypatch.setattr(rig.containers.lifecycle.stopper, "end", hanging)
        with pytest.raises(Transient, match="it hangs"):
            await rig.containers.of_sandbox.stop_all(SANDBOX)
        assert (first.running, second.running) == (True, False)
        monkeypatch.setattr(rig.containers.lifecycle.stopper, "end", stop)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_finish_is_idempotent(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sh", "-c", "exit 3")
        await rig.containers.lifecycle.starter.start(container.id)
        await container.ended.wait()
        record = container.record
        await rig.containers.recovery._watcher.finish(container, Exit(9, record.finished_at + 5, True))
        await rig.containers.recovery._watcher.finish(container, None)
        assert container.record == record
        await rig.containers.lifecycle.remover.remove(container.id)
        gone = replace(record, phase=ContainerPhase.REMOVING)
        await rig.containers.recovery._watcher.finish(container, Exit(9, 1, False))
        assert container.record == gone


@pytest.mark.parametrize("noted", [Exit(0, 1, False), None])
async def test_finish_clock_set_back_is_not_before_the_start(tmp_path: Path, noted: Exit | None) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        later = container.record.started_at + 3600 * 10**9
        await rig.containers.recovery._records.put(container, replace(container.record, started_at=later))
        await rig.containers.recovery._watcher.finish(container, noted)
        assert container.record.finished_at >= later
        assert container.record.process is not None
        os.kill(container.record.process.pid, signal.SIGKILL)  # it ran on, whatever was noted
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_creation_clock_set_back_is_after_the_sandbox_s_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        first = await rig.create()
        now = rig.scope.clock.now()
        monkeypatch.setattr(type(rig.scope.clock), "now", lambda clock: now - 3600)
        second = await rig.create(attempt=1)
        assert second.record.created_at > first.record.created_at
        assert rig.containers.table.of_sandbox(SANDBOX) == [first, second]
        await rig.containers.lifecycle.starter.start(second.id)
        assert second.record.started_at >= second.record.created_at
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_update_that_cannot_be_stored_is_not_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()

        async def full(record: object) -> None:
            raise Transient("disk full")

        monkeypatch.setattr(rig.store.containers, "put", full)
        resources = pb.LinuxContainerResources(cpu_shares=7)
        with pytest.raises(Transient, match="disk full"):
            await rig.containers.updater.update(container.id, resources)
        assert container.config.linux.resources.cpu_shares == 0
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_command_in_a_container_removed_meanwhile_is_not_found(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.remover.remove(container.id)
        with pytest.raises(NotFound, match="has no bundle"):
            await rig.containers.commands.process(container, ["true"])


async def test_launch_interrupted_before_the_pid_file_leaves_no_conmon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        gate, launch = Gate(), Conmon.launch

        async def unnoted(conmon: Conmon, what: LaunchParameters) -> LaunchedContainer:
            found = await launch(conmon, what)
            (what.bundle / "conmon.pid").unlink()
            await gate.passed()
            return found

        monkeypatch.setattr(Conmon, "launch", unnoted)
        # The script's name is not the first word of its command line, as the program's would be.
        monkeypatch.setattr(monitored, "monitors", lambda program: _monitors(program))
        container = await rig.create("sleep", "60")
        start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
        await gate.reached.wait()
        await _stop_all(rig, container)
        with pytest.raises(Permanent, match="was cancelled"):
            await start
        assert not _lives(container, tmp_path)
        await rig.containers.of_sandbox.remove_all(SANDBOX)


def _monitors(program: str) -> dict[ContainerID, ProcessRef]:
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (
                (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdecimal() else []
            )
            process = reference(int(entry.name)) if program in words else None
            if process is not None:
                found[ContainerID(words[words.index("-c") + 1])] = process
    return found


async def test_prelaunch_with_an_unexpected_error_is_left_to_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        tries, launch = [], Conmon.launch

        async def broken_once(conmon: Conmon, what: LaunchParameters) -> LaunchedContainer:
            tries.append(what)
            if len(tries) == 1:
                raise ValueError("unforeseen")
            return await launch(conmon, what)

        monkeypatch.setattr(Conmon, "launch", broken_once)
        container = await rig.create("sleep", "60")
        await until(lambda: tries)
        await rig.containers.lifecycle.starter.start(container.id)
        assert container.running
        assert len(tries) == 2
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_partially_created_container_is_removed_with_its_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        await rig.containers.lifecycle.stopper.stop(container.id, 0)
        half = replace(container.record, phase=ContainerPhase.MAKING)
        rig.containers.table.add(half)
        await rig.containers.of_sandbox.remove_all(SANDBOX)
        assert rig.containers.table.of_sandbox(SANDBOX) == []
        assert rig.images.held == set()
        assert rig.cgroups.deleted


async def _with_record(rig: Rig, container: Container, phase: ContainerPhase) -> None:
    """Reset the record, as if the server had been killed before it was updated."""
    cut = replace(container.record, phase=phase, process=None, monitor=None, started_at=0)
    await rig.store.containers.put(cut)


async def test_recovery_program_runs_is_adopted_with_its_process_and_monitor(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        process = container.record.process
        monitor = reference(int((rig.deps.directories.bundle(container.id) / "conmon.pid").read_text()))
        await _with_record(rig, container, ContainerPhase.CREATED)
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        found = rig.containers.table.get(container.id)
        await until(lambda: found.running)
        assert (found.record.process, found.record.monitor) == (process, monitor)
        assert None not in (process, monitor)
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_recovery_of_a_launch_interrupted_before_the_oci_state_is_created(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.launched(container)
        rig.forget_launches()
    state = tmp_path / "oci" / container.id
    for path in state.iterdir():
        path.unlink()
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        found = rig.containers.table.get(container.id)
        await until(lambda: not state.exists() and not _lives(container, tmp_path))
        assert found.record.phase is ContainerPhase.CREATED
        await rig.containers.lifecycle.starter.start(container.id)
        await rig.containers.lifecycle.remover.remove(container.id)
