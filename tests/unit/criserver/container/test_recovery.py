"""Recovery from a record in each phase when nothing of the container is left on the machine, as after a reboot."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.container import recover
from pykubelet.criserver.types import ContainerID, ContainerPhase, ProcessRef
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, rig_in

_GONE = ProcessRef(1, 5, "another boot")


@pytest.mark.parametrize("phase", ContainerPhase)
@pytest.mark.parametrize("with_sandbox", [False, True])
async def test_recovered_container_can_be_stopped_and_removed(
    tmp_path: Path, phase: ContainerPhase, with_sandbox: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        lost = replace(container.record, phase=phase, process=_GONE, monitor=_GONE, started_at=7)
        await rig.containers.lifecycle.remover.remove(container.id)
        await rig.store.containers.add(lost)
        with files_in_loop(tmp_path) as used:
            await rig.recover()
        assert used == []
        assert rig.scope.repairs.unfinished() == []
        shown = [each.record.phase for each in rig.containers.table.visible()]
        kept = phase in (ContainerPhase.CREATED, ContainerPhase.RUNNING, ContainerPhase.EXITED)
        assert shown == ([ContainerPhase.EXITED] if kept else [])
        await rig.containers.lifecycle.stopper.stop(container.id, 1)
        if with_sandbox:
            await rig.containers.of_sandbox.stop_all(SANDBOX)
            await rig.containers.of_sandbox.remove_all(SANDBOX)
            await rig.store.sandboxes.delete(SANDBOX)
        else:
            await rig.containers.lifecycle.remover.remove(container.id)
        assert list(rig.containers.table) == []
        assert await rig.store.load() == ([], [])


@pytest.mark.parametrize("phase", [ContainerPhase.REMOVING, ContainerPhase.MAKING])
@pytest.mark.parametrize("hangs", [False, True])
async def test_container_that_cannot_be_removed_does_not_delay_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: ContainerPhase, hangs: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        first, second = await rig.create("sleep", "60"), await rig.create("sleep", "60", attempt=1)
        bad = replace(first.record, phase=phase)
        good = replace(second.record, phase=ContainerPhase.RUNNING, process=_GONE, monitor=_GONE, started_at=7)
        for container in (first, second):
            await rig.containers.lifecycle.remover.remove(container.id)
        for record in (bad, good):
            await rig.store.containers.add(record)
        release, works, tries = rig.images.release, asyncio.Event(), 0

        async def held(container: ContainerID) -> None:
            nonlocal tries
            if container == bad.id:
                tries += 1
                if hangs:
                    await works.wait()
                elif not works.is_set():
                    raise OSError(5, "Input/output error")
            await release(container)

        monkeypatch.setattr(rig.images, "release", held)
        repairs = rig.scope.repairs
        rig.scope.tasks.create_task(repairs.run())
        async with asyncio.timeout(30):
            await rig.containers.recovery.recover([bad, good])
        await until(lambda: tries and [each.id for each in repairs.unfinished()] == [bad.id])
        assert rig.containers.table.get(good.id).record.phase is ContainerPhase.EXITED
        await rig.containers.lifecycle.remover.remove(good.id)
        assert [record.id for record in (await rig.store.load())[1]] == [bad.id]
        works.set()
        await until(lambda: repairs.unfinished() == [])
        assert tries > 1 or hangs
        assert list(rig.containers.table) == []
        assert await rig.store.load() == ([], [])


@pytest.mark.parametrize("change", ["removed", "ended"])
async def test_repair_leaves_a_container_alone_that_a_client_has_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async with rig_in(tmp_path) as rig:
        await rig.create("sleep", "60")
        rig.forget_launches()
    async with rig_in(tmp_path) as rig:
        applied: list[str] = []

        async def apply(found: object, what: object, pid: int, monitor: object) -> None:
            applied.append(str(what))

        monkeypatch.setattr(rig.containers.recovery, "_apply", apply)
        (record,) = (await rig.store.load())[1]
        found = rig.containers.table.add(record)
        if change == "removed":
            await rig.containers.lifecycle.remover.remove(found.id)
        else:
            found.record = found.moved(ContainerPhase.EXITED)
        await rig.containers.recovery._recover(found, record, {})
        assert applied == []
        if change != "removed":
            await rig.containers.recovery._recover(found, found.record, {})
            assert len(applied) == 1
            monkeypatch.undo()
            await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_orphans_among_known_containers_are_removed_and_no_others(tmp_path: Path) -> None:
    """Whatever the order of their directories."""
    async with rig_in(tmp_path) as rig:
        known = [await rig.create("sleep", "60", attempt=number) for number in range(3)]
        for container in known:
            await rig.containers.lifecycle.stopper.stop(container.id, 0)
        bundles = rig.deps.directories.bundles
        for name in ("0" * 64, "7" * 64, "f" * 64):
            (bundles / name).mkdir()
        protected = await rig.containers.recovery.remove_orphans([each.record for each in known], intact=True)
        await rig.scope.repairs.wait_for_first_attempts(60)
        assert {path.name for path in bundles.iterdir()} == {each.id for each in known}
        assert "0" * 64 not in protected
        assert SANDBOX in protected, "its containers have records"
        assert not protected.everything
        await rig.containers.of_sandbox.remove_all(SANDBOX)


@pytest.mark.parametrize("fault", ["unreadable", "missing"])
async def test_spec_of_a_running_orphan_that_cannot_be_read_protects_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Its sandbox may have lost its record, too: the spec would have named it."""

    def refuse(path: Path, limit: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    async with rig_in(tmp_path) as rig:
        running = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(running.id)
        if fault == "missing":
            (rig.deps.directories.bundle(running.id) / "config.json").unlink()
        with monkeypatch.context() as patch:
            if fault == "unreadable":
                patch.setattr(recover, "read_regular", refuse)
            protected = await rig.containers.recovery.remove_orphans([], intact=True)
        assert running.id in protected
        assert ("ab" * 32 in protected) is (fault == "unreadable")
        await rig.containers.of_sandbox.remove_all(SANDBOX)
