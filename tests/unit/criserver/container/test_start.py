"""Starts that fail or are cancelled: what the client, the subscribers of events and the next server see of them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.criserver.container import Container
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.types import ContainerPhase
from tests.unit.criserver.container.rig import SANDBOX, Rig, rig_in


def _hold_starts(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Make the OCI runtime's starts hang until they are cancelled. The event: one has begun."""
    begun = asyncio.Event()

    async def hanging(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(OciRuntime, "start", hanging)
    return begun


async def _stop(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.stopper.stop(container.id, 0)


async def _remove(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.remover.remove(container.id)


async def _stop_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.stop_all(SANDBOX)


async def _remove_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.remove_all(SANDBOX)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (_stop, "it was stopped meanwhile"),
        (_remove, "it was removed meanwhile"),
        (_stop_all, "its sandbox was stopped meanwhile"),
        (_remove_all, "its sandbox was removed meanwhile"),
    ],
)
async def test_start_cancelled_by_another_call_names_that_call_in_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Rig, Container], Awaitable[None]], why: str
) -> None:
    async with rig_in(tmp_path) as rig:
        begun = _hold_starts(monkeypatch)
        container = await rig.create("sleep", "60")
        start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
        await begun.wait()
        await act(rig, container)
        with pytest.raises(Permanent, match=f"the start of container {container.id} was cancelled: {why}"):
            await start
        await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_start_interrupted_by_the_end_of_the_server_is_repeated_in_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no StartError: the client asks again, and the container is still in the created phase."""
    async with rig_in(tmp_path) as rig:
        with monkeypatch.context() as patch:
            begun = _hold_starts(patch)
            container = await rig.create("sleep", "60")
            start = asyncio.ensure_future(rig.containers.lifecycle.starter.start(container.id))
            await begun.wait()
            start.cancel()
            with pytest.raises(asyncio.CancelledError):
                await start
    async with rig_in(tmp_path) as rig:
        await rig.recover()
        found = rig.containers.table.get(container.id)
        assert (found.record.phase, found.record.reason) == (ContainerPhase.CREATED, "")
        await rig.containers.lifecycle.starter.start(container.id)
        assert found.running
        await rig.containers.lifecycle.remover.remove(container.id)


async def test_failed_start_is_announced_as_a_stop_of_a_container_that_never_ran(tmp_path: Path) -> None:
    async with rig_in(tmp_path) as rig, aclosing(rig.scope.events.subscribe()) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        container = await rig.create("/no/such/program")
        with pytest.raises(Permanent, match="No such file"):
            await rig.containers.lifecycle.starter.start(container.id)
        record = container.record
        assert record.started_at == 0
        assert record.finished_at >= record.created_at
        await rig.containers.lifecycle.remover.remove(container.id)
        created, stopped, deleted = await first, await anext(events), await anext(events)
        kinds = [created.kind, stopped.kind, deleted.kind]
        assert kinds == [EventKind.CREATED, EventKind.STOPPED, EventKind.DELETED]
        assert (stopped.id, stopped.at) == (container.id, record.finished_at)
