"""Recovery from a record in each phase when nothing of the sandbox is left on the machine, as after a reboot."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.types import ProtectedIds, SandboxID, SandboxPhase, SandboxRecord
from pykubelet.linux import system
from pykubelet.testing.wait import until
from tests.unit.criserver.sandbox.rig import Rig, config, rig_in


async def _recovered(directory: Path, rig: Rig, record: SandboxRecord) -> Rig:
    """Recover, as the next server does with this record only."""
    again = Rig(directory, rig.store, rig.scope.tasks)
    again.sandboxes.recovery.recover([record])
    await again.sandboxes.recovery.clean_up(ProtectedIds())
    await again.scope.repairs.wait_for_first_attempts(30)
    assert again.scope.repairs.unfinished() == []
    return again


@pytest.mark.parametrize("phase", SandboxPhase)
@pytest.mark.parametrize("rebooted", [False, True])
async def test_recovered_sandbox_can_be_stopped_and_removed(
    tmp_path: Path, phase: SandboxPhase, rebooted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        boot = "another" if rebooted else system.boot_id()
        lost = replace(rig.sandboxes.table.get(identity).record, phase=phase, boot=boot)
        await rig.sandboxes.remover.remove(identity)
        await rig.store.sandboxes.add(lost)
        again = await _recovered(tmp_path, rig, lost)
        shown = [each.record.phase for each in again.sandboxes.table.visible()]
        kept = phase in (SandboxPhase.READY, SandboxPhase.STOPPED)
        assert shown == ([SandboxPhase.STOPPED] if kept else [])
        reported = [vars(each)["gone"] for each in caplog.records if each.message.startswith("sandbox lost")]
        assert len(reported) == (phase is SandboxPhase.READY) and all(reported)
        assert [record.id for record in (await rig.store.load())[0]] == ([identity] if kept else [])
        await again.sandboxes.stopper.stop(identity)
        await again.sandboxes.remover.remove(identity)
        await again.sandboxes.remover.remove(identity)
        assert list(again.sandboxes.table) == []
        assert await rig.store.load() == ([], [])
        assert again.nothing_left()


@pytest.mark.parametrize("phase", [SandboxPhase.REMOVING, SandboxPhase.MAKING, None])
@pytest.mark.parametrize("hangs", [False, True])
async def test_sandbox_that_cannot_be_removed_does_not_delay_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: SandboxPhase | None, hangs: bool
) -> None:
    """``phase`` None: the namespaces of a sandbox without a record."""
    async with rig_in(tmp_path) as rig:
        bad, good = await rig.sandboxes.runner.run(config("bad"), ""), await rig.sandboxes.runner.run(config(), "")
        records = [rig.sandboxes.table.get(good).record]
        if phase is not None:
            records.insert(0, replace(rig.sandboxes.table.get(bad).record, phase=phase))
        else:
            await rig.store.sandboxes.delete(bad)
        again = Rig(tmp_path, rig.store, rig.scope.tasks)
        again.namespaces.made.update(rig.namespaces.made)
        release, works, tries = again.namespaces.release, asyncio.Event(), 0

        async def held(sandbox: SandboxID) -> None:
            nonlocal tries
            if sandbox == bad:
                tries += 1
                if hangs:
                    await works.wait()
                elif not works.is_set():
                    raise OSError(5, "Input/output error")
            await release(sandbox)

        monkeypatch.setattr(again.namespaces, "release", held)
        repairs = again.scope.repairs
        runs = rig.scope.tasks.create_task(repairs.run())
        try:
            again.sandboxes.recovery.recover(records)
            async with asyncio.timeout(20):
                await again.sandboxes.recovery.clean_up(ProtectedIds())
            await until(lambda: tries and [each.id for each in repairs.unfinished()] == [bad])
            assert again.sandboxes.table.get(good).record.phase is SandboxPhase.STOPPED
            await again.sandboxes.remover.remove(good)
        finally:
            works.set()
        await again.clock.advance(5)
        await until(lambda: repairs.unfinished() == [])
        assert tries > 1 or hangs
        assert list(again.sandboxes.table) == []
        assert await rig.store.load() == ([], [])
        assert again.nothing_left()
        runs.cancel()
