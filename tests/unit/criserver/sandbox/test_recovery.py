"""Recovery from a record in each phase when nothing of the sandbox is left on the machine, as after a reboot."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.types import ProtectedIds, SandboxPhase, SandboxRecord
from pykubelet.linux import system
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
    tmp_path: Path, phase: SandboxPhase, rebooted: bool
) -> None:
    async with rig_in(tmp_path) as rig:
        identity = await rig.sandboxes.runner.run(config(), "")
        boot = "another" if rebooted else system.boot_id()
        lost = replace(rig.sandboxes.table.get(identity).record, phase=phase, boot=boot)
        await rig.sandboxes.remover.remove(identity)
        await rig.store.add_sandbox(lost)
        again = await _recovered(tmp_path, rig, lost)
        shown = [each.record.phase for each in again.sandboxes.table.visible()]
        kept = phase in (SandboxPhase.READY, SandboxPhase.STOPPED)
        assert shown == ([SandboxPhase.STOPPED] if kept else [])
        assert [record.id for record in (await rig.store.load())[0]] == ([identity] if kept else [])
        await again.sandboxes.stopper.stop(identity)
        await again.sandboxes.remover.remove(identity)
        await again.sandboxes.remover.remove(identity)
        assert list(again.sandboxes.table) == []
        assert await rig.store.load() == ([], [])
        assert again.nothing_left()
