"""The queue of changes. The database's thread makes them in the order of the calls.

A change that fails because the disk is full, and that must not be lost, is deferred. Deferred changes are known to that
thread only, and are made before the next change, so that the last state of a record always wins.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.record_store.database import Database

_log = logging.getLogger(__name__)
_RETRY: Seconds = 1.0
_ITEM = "deferred changes"
Work = Callable[[sqlite3.Connection], None]


class Writer:
    """The writer of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._deferred: dict[str, Work] = {}
        """Deferred changes by record id, in order. Only the database's thread uses it."""
        self._has_deferred = asyncio.Event()

    async def change(self, work: Work) -> None:
        """Make the deferred changes and this one in one transaction. Transient: the disk is full, nothing changed."""
        await self._database.run(self._all_with(work), self._clear_deferred)

    async def change_or_defer(self, identity: str, work: Work) -> None:
        """Make a change, or defer it if the disk is full. It replaces the deferred change of the same record."""

        def defer(error: PykubeletError) -> None:
            if isinstance(error, Transient):
                # At the end: it may depend on other deferred changes.
                self._deferred.pop(identity, None)
                self._deferred[identity] = work

        try:
            await self._database.run(self._all_with(work), self._clear_deferred, defer)
        except Transient as error:
            self._has_deferred.set()
            _log.error("record not written: retrying", extra={"id": identity, "error": str(error)})

    async def write_deferred(self) -> None:
        """Retry deferred changes, also when no other change comes; runs until cancelled."""
        guard = Guard("store.owed", self._clock.monotonic, initial=_RETRY, maximum=60 * _RETRY)
        while True:
            await self._has_deferred.wait()
            await self._clock.sleep(max(_RETRY, guard.delay(_ITEM)))
            self._has_deferred.clear()
            with guard.item(_ITEM) as attempt:
                await self.change(_nothing)
            if attempt.error is not None:
                self._has_deferred.set()

    async def close(self) -> None:
        """Make the deferred changes, if the disk has space, and close the file."""
        try:
            await self.change(_nothing)
        except PykubeletError as error:
            _log.error("records not written", extra={"ids": sorted(self._deferred), "error": str(error)})
        finally:
            await self._database.close()

    def _all_with(self, work: Work) -> Work:
        def all_of_it(connection: sqlite3.Connection) -> None:
            for each in (*self._deferred.values(), work):
                each(connection)

        return all_of_it

    def _clear_deferred(self) -> None:
        self._deferred.clear()


def _nothing(connection: sqlite3.Connection) -> None:
    """Make no change of its own: the deferred ones come with it."""
