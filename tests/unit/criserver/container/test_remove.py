"""RemoveContainer, and the removal with the sandbox: what clients see during it, and what it waits for."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.container import Container
from pykubelet.criserver.event_hub import EventKind
from pykubelet.criserver.types import ContainerID
from pykubelet.testing.wait import until
from tests.unit.criserver.container.rig import SANDBOX, Rig, record_signals, rig_in


async def _remove(rig: Rig, container: Container) -> None:
    await rig.containers.lifecycle.remover.remove(container.id)


async def _remove_all(rig: Rig, container: Container) -> None:
    await rig.containers.of_sandbox.remove_all(SANDBOX)


async def test_removal_ends_when_there_is_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that removes containers to free space finds it free afterwards."""
    async with rig_in(tmp_path) as rig:
        asked, room = asyncio.Event(), asyncio.Event()

        async def make_room() -> None:
            asked.set()
            await room.wait()

        monkeypatch.setattr(rig.images, "make_room", make_room)
        container = await rig.create()
        removal = asyncio.ensure_future(_remove(rig, container))
        await until(lambda: asked.is_set() or removal.done())
        assert not removal.done()
        assert list(rig.containers.table.visible()) == []
        room.set()
        await removal


@pytest.mark.parametrize("act", [_remove, _remove_all])
async def test_removal_kills_a_running_container_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Rig, Container], Awaitable[None]]
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create("sleep", "60")
        await rig.containers.lifecycle.starter.start(container.id)
        signals = record_signals(monkeypatch)
        await act(rig, container)
        assert signals == [signal.SIGKILL]


@pytest.mark.parametrize("act", [_remove, _remove_all])
async def test_container_is_not_listed_during_its_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Rig, Container], Awaitable[None]]
) -> None:
    async with rig_in(tmp_path) as rig:
        container = await rig.create()
        listed: list[list[Container]] = []
        release = rig.images.release

        async def noted(name: ContainerID) -> None:
            listed.append(list(rig.containers.table.visible()))
            await release(name)

        monkeypatch.setattr(rig.images, "release", noted)
        await act(rig, container)
        assert listed == [[]]


async def test_removal_of_a_failed_creation_is_not_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its creation was not announced either."""
    async with rig_in(tmp_path) as rig, aclosing(rig.scope.events.subscribe()) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)

        async def broken(*_: object) -> Path:
            raise Transient("an I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(rig.images, "prepare", broken)
            patch.setattr(rig.images, "release", broken)
            with pytest.raises(Transient, match="an I/O error"):
                await rig.create()
        assert len(rig.containers.table.of_sandbox(SANDBOX)) == 1
        await rig.containers.of_sandbox.remove_all(SANDBOX)
        assert rig.containers.table.of_sandbox(SANDBOX) == []
        other = await rig.create(attempt=1)
        announced = await first
        assert (announced.id, announced.kind) == (other.id, EventKind.CREATED)
