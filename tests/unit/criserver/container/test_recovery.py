"""Recovery from a record in each phase when nothing of the container is left on the machine, as after a reboot."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.types import ContainerPhase, ProcessRef
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
        await rig.containers.remover.remove(container.id)
        await rig.store.add_container(lost)
        await rig.recover()
        assert rig.scope.repairs.unfinished() == []
        shown = [each.record.phase for each in rig.containers.table.visible()]
        kept = phase in (ContainerPhase.CREATED, ContainerPhase.RUNNING, ContainerPhase.EXITED)
        assert shown == ([ContainerPhase.EXITED] if kept else [])
        await rig.containers.stopper.stop(container.id, 1)
        if with_sandbox:
            await rig.containers.of_sandbox.stop_all(SANDBOX)
            await rig.containers.of_sandbox.remove_all(SANDBOX)
            await rig.store.delete_sandbox(SANDBOX)
        else:
            await rig.containers.remover.remove(container.id)
        assert list(rig.containers.table) == []
        assert await rig.store.load() == ([], [])
