"""Writes deferred by a full disk: made in order, and none is lost."""

import asyncio
import errno
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.criserver.record_store import Store
from pykubelet.criserver.record_store.database import Database
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxPhase, SandboxRecord
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX


async def _written(path: Path) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
    """The records that the next server reads."""
    store = await Store.open(path)
    try:
        return await store.load()
    finally:
        await store.close()


class _Disk:
    """Refuses chosen writes: the first, the second, …"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused: set[int] = set()
        self.full = False
        self._writes = 0
        genuine = Database._transaction

        def transaction(database: Database, work: Callable[[sqlite3.Connection], object]) -> object:
            def limited(connection: sqlite3.Connection) -> object:
                found = work(connection)
                if connection.in_transaction:
                    self._writes += 1
                    if self.full or self._writes in self.refused:
                        raise OSError(errno.ENOSPC, "No space left on device")
                return found

            return genuine(database, limited)

        monkeypatch.setattr(Database, "_transaction", transaction)

    def refuse(self, *numbers: int) -> None:
        """Refuse these of the next writes."""
        self._writes, self.refused = 0, set(numbers)


_RUNNING = replace(CONTAINER, phase=ContainerPhase.RUNNING)
_EXITED = replace(CONTAINER, phase=ContainerPhase.EXITED, exit_code=3)


@pytest.mark.parametrize("refused", [{1}, {2}, {1, 2}])
async def test_store_disk_full_between_concurrent_notes_last_state_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: set[int]
) -> None:
    disk = _Disk(monkeypatch)
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    disk.refuse(*refused)
    await asyncio.gather(store.containers.note(_RUNNING), store.containers.note(_EXITED))
    disk.refuse()
    await store.sandboxes.put(replace(SANDBOX, phase=SandboxPhase.READY))
    await store.sandboxes.put(replace(SANDBOX, phase=SandboxPhase.STOPPED))
    assert (await store.load())[1] == [_EXITED]
    await store.close()
    assert (await _written(tmp_path / "state.db"))[1] == [_EXITED]


async def test_store_disk_full_at_deletion_record_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(monkeypatch)
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    disk.refuse(1)
    await asyncio.gather(store.containers.note(_EXITED), store.containers.delete(CONTAINER.id))
    await store.containers.add(replace(CONTAINER, id=ContainerID("c2")))
    assert [record.id for record in (await store.load())[1]] == ["c2"]
    await store.close()


async def test_deferred_changes_of_several_records_are_all_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, stopped = _Disk(monkeypatch), replace(SANDBOX, phase=SandboxPhase.STOPPED)
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    disk.refuse(1, 2, 3)
    await store.containers.note(_RUNNING)
    await store.sandboxes.note(stopped)
    await store.containers.note(_EXITED)
    await store.close()
    assert await _written(tmp_path / "state.db") == ([stopped], [_EXITED])


async def test_store_closed_after_disk_full_writes_deferred_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _Disk(monkeypatch)
    store = await Store.open(tmp_path / "state.db")
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    disk.refuse(1)
    await store.containers.note(_EXITED)
    await store.close()
    assert (await _written(tmp_path / "state.db"))[1] == [_EXITED]


async def test_store_idle_after_disk_full_writes_deferred_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, clock = _Disk(monkeypatch), VirtualClock()
    store = await Store.open(tmp_path / "state.db", clock)
    retries = asyncio.ensure_future(store.write_deferred())
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    disk.full = True
    await store.containers.note(_EXITED)
    await clock.advance(20)
    assert (await store.load())[1] == [CONTAINER]
    disk.full = False
    for _ in range(500):
        await clock.advance(20)
        if (await store.load())[1] == [_EXITED]:
            break
    else:
        raise AssertionError("it was never written")
    retries.cancel()
    await asyncio.gather(retries, return_exceptions=True)
    await store.close()


async def test_store_change_of_a_cancelled_caller_is_made(tmp_path: Path) -> None:
    """The caller is cancelled while the thread writes another record."""
    store = await Store.open(tmp_path / "state.db")
    begun, go = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        begun.set()
        go.wait(10)

    busy = asyncio.ensure_future(store._database.run(slow))
    await asyncio.to_thread(begun.wait, 10)
    call = asyncio.ensure_future(store.sandboxes.add(SANDBOX))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await busy
    assert (await store.load())[0] == [SANDBOX]
    await store.close()
