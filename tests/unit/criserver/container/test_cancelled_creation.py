"""A creation that is cancelled when its record is written already, and calls of another client about that container."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.container import Container
from pykubelet.criserver.types import ContainerPhase, ContainerRecord
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in


async def _cancel_when_created(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> tuple["asyncio.Task[Container]", Container]:
    """Cancel a creation whose record is in the created phase already; return the call and the container."""
    written, put = asyncio.Event(), rig.store.containers.put

    async def noted(record: ContainerRecord) -> None:
        await put(record)
        written.set()

    monkeypatch.setattr(rig.store.containers, "put", noted)
    creation = asyncio.ensure_future(rig.create("sleep", "60"))
    await written.wait()
    creation.cancel()
    (container,) = rig.containers.table.of_sandbox(SANDBOX)
    return creation, container


async def test_start_during_the_undo_of_a_cancelled_creation_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig_in(tmp_path) as rig:
        undoing, go, note = asyncio.Event(), asyncio.Event(), rig.store.containers.note

        async def late(record: ContainerRecord) -> None:
            if record.phase is ContainerPhase.MAKING:
                undoing.set()
                await go.wait()
            await note(record)

        monkeypatch.setattr(rig.store.containers, "note", late)
        creation, container = await _cancel_when_created(rig, monkeypatch)
        await undoing.wait()
        start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
        await asyncio.wait({start}, timeout=0.5)
        go.set()
        with pytest.raises((Permanent, NotFound)):
            await start
        with pytest.raises(asyncio.CancelledError):
            await creation
        assert rig.containers.table.of_sandbox(SANDBOX) == []
        assert await rig.store.load() == ([], [])
        assert rig.images.held == set()
        await until(lambda: not list((tmp_path / "oci").iterdir()))


async def test_undo_of_a_creation_leaves_a_container_that_was_started_alone(tmp_path: Path) -> None:
    """Its record and the database agree, so that the next server does not kill it."""
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        drafted = replace(container.record, phase=ContainerPhase.MAKING)
        await rig.containers.lifecycle.starter.start(container.id)
        await rig.containers.lifecycle.creator._undo(container, drafted)
        assert container.running
        assert (await rig.store.load())[1] == [container.record]
        await rig.containers.lifecycle.remover.remove(container.id)


@pytest.mark.parametrize("how", ["put", "note"])
async def test_impossible_phase_is_not_stored(tmp_path: Path, how: str) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        records = rig.containers.lifecycle.starter._records
        with pytest.raises(Permanent, match="it cannot become making"):
            await getattr(records, how)(container, replace(container.record, phase=ContainerPhase.MAKING))
        assert (await rig.store.load())[1] == [container.record]
        await rig.containers.lifecycle.remover.remove(container.id)
