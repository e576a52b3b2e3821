"""The one queue of changes. The database's thread makes them in the order in which they were asked for.

A change that a full disk refuses, and that must not be lost, is owed. What is owed is known to that thread alone, and
comes before the next change, so that of two states of a record the last one always wins.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.criserver.store.database import Database

_log = logging.getLogger(__name__)
_RETRY: Seconds = 1.0
_ITEM = "what is owed"
Work = Callable[[sqlite3.Connection], None]


class Writer:
    """Changes a database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._deferred: dict[str, Work] = {}
        """By id, in their order. Only the database's thread touches it."""
        self._owing = asyncio.Event()

    async def change(self, work: Work) -> None:
        """Make what is owed and this change, in one transaction. Transient: the disk is full, and it is not made."""
        await self._database.run(self._all_with(work), self._clear_deferred)

    async def change_or_defer(self, identity: str, work: Work) -> None:
        """The same, but a full disk delays it. It takes the place of what is owed for the same record."""

        def owe(error: PykubeletError) -> None:
            if isinstance(error, Transient):
                # At the end: it may need what others owe.
                self._deferred.pop(identity, None)
                self._deferred[identity] = work

        try:
            await self._database.run(self._all_with(work), self._clear_deferred, owe)
        except Transient as error:
            self._owing.set()
            _log.error("a record is not written yet", extra={"id": identity, "error": str(error)})

    async def write_deferred(self) -> None:
        """For ever: try again what is owed, also when no other change comes."""
        guard = Guard("store.owed", self._clock.monotonic, initial=_RETRY, maximum=60 * _RETRY)
        while True:
            await self._owing.wait()
            await self._clock.sleep(max(_RETRY, guard.delay(_ITEM)))
            self._owing.clear()
            with guard.item(_ITEM) as attempt:
                await self.change(_nothing)
            if attempt.error is not None:
                self._owing.set()

    async def close(self) -> None:
        """Write what is owed, if the disk lets it, and close the file."""
        try:
            await self.change(_nothing)
        except PykubeletError as error:
            _log.error("records are not written", extra={"ids": sorted(self._deferred), "error": str(error)})
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
    """What is owed comes by itself."""
