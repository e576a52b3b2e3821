"""Retries of deferred writes: their times, and the failures that are not retried."""

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.base.units import Seconds
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.record_store.database import Database
from pykubelet.criserver.types import ContainerPhase, SandboxPhase
from pykubelet.testing.clock import VirtualClock
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX

_EXITED = replace(CONTAINER, phase=ContainerPhase.EXITED, exit_code=3)
_FULL = OSError(errno.ENOSPC, "No space left on device")
_DAMAGED = sqlite3.DatabaseError("database disk image is malformed")


@dataclass
class _RetryRig:
    """A store with a sandbox and a container, whose retries run."""

    store: Store
    clock: VirtualClock
    error: Exception | None = None
    """Raised by all writes."""
    attempts: list[Seconds] = field(default_factory=list)
    """The times of the writes that failed."""

    async def settle(self) -> None:
        """Let the thread of the database do all that it was given, and the retries notice it."""
        await self.store.load()
        await self.clock.settle()

    async def advance(self, seconds: int) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            await self.clock.advance(1)
            await self.settle()


@asynccontextmanager
async def _store_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_RetryRig]:
    clock = VirtualClock()
    store = await Store.open(directory / "state.db", clock)
    given = _RetryRig(store, clock)
    genuine = Database._transaction

    def transaction(database: Database, work: Callable[[sqlite3.Connection], object]) -> object:
        def failing(connection: sqlite3.Connection) -> object:
            found = work(connection)
            if connection.in_transaction and given.error is not None:
                given.attempts.append(clock.monotonic())
                raise given.error
            return found

        return genuine(database, failing)

    monkeypatch.setattr(Database, "_transaction", transaction)
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    retries = asyncio.ensure_future(store.write_deferred())
    try:
        yield given
    finally:
        retries.cancel()
        await asyncio.gather(retries, return_exceptions=True)
        given.error = None
        await store.close()


async def test_retries_on_a_full_disk_come_after_growing_delays_and_at_least_every_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _store_in(tmp_path, monkeypatch) as given:
        given.error = _FULL
        await given.store.containers.note(_EXITED)
        for _ in range(10):
            await given.settle()
        assert len(given.attempts) == 1, "no time has passed"
        await given.advance(400)
        times = given.attempts
        delays = [later - earlier for earlier, later in pairwise(times)]
        assert delays == sorted(delays)
        assert (delays[0], delays[-1]) == (1, 60)


async def test_store_without_deferred_changes_does_not_wake_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _store_in(tmp_path, monkeypatch) as given:
        await given.advance(3)
        assert given.clock.sleepers == 0
        given.error = _FULL
        await given.store.containers.note(_EXITED)
        await given.settle()
        assert given.clock.sleepers == 1
        given.error = None
        await given.advance(3)
        assert (await given.store.load())[1] == [_EXITED]
        assert given.clock.sleepers == 0


async def test_write_refused_by_a_damaged_file_is_not_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller has got an error, and keeps the old record in memory."""
    async with _store_in(tmp_path, monkeypatch) as given:
        given.error = _DAMAGED
        with pytest.raises(Permanent, match="is damaged"):
            await given.store.containers.note(_EXITED)
        given.error = None
        await given.advance(3)
        ready = replace(SANDBOX, phase=SandboxPhase.READY)
        await given.store.sandboxes.put(ready)
        assert await given.store.load() == ([ready], [CONTAINER])
