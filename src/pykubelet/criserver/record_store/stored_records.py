"""The records of one kind, sandboxes or containers, as their owner changes them: on disk first, then in memory."""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol

from pykubelet.base.concurrency.shield import shielded
from pykubelet.criserver.record_store.record_table import Record, RecordTable
from pykubelet.criserver.record_store.writer import Writer


class StoredRecords(Generic[Record]):
    """The durable records of one kind. Each call returns after the commit."""

    def __init__(
        self, writer: Writer, table: RecordTable[Record], *, delete: Callable[[str, sqlite3.Connection], None]
    ) -> None:
        """``delete`` deletes a record with all that belongs to it."""
        self._writer = writer
        self._table: RecordTable[Record] = table
        self._delete = delete

    async def add(self, record: Record) -> None:
        """Reserve the name and add the record. Conflict, with the holder: it is taken; Transient: the disk is full."""
        await self._writer.change(partial(self._table.add, record))

    async def put(self, record: Record) -> None:
        """Replace the record. Transient: the disk is full; nothing was changed."""
        await self._writer.change(partial(self._table.replace, record))

    async def note(self, record: Record) -> None:
        """Like ``put``, but deferred if the disk is full: the next server sees the change on the machine."""
        await self._writer.change_or_defer(record.id, partial(self._table.replace, record))

    async def delete(self, identity: str) -> None:
        """Delete the record with all that belongs to it, and free the names; deferred if the disk is full."""
        await self._writer.change_or_defer(identity, partial(self._delete, identity))


class RecordedItem(Protocol[Record]):
    """An item in the memory of the server that has a record."""

    record: Record

    def check(self, record: Record) -> None:
        """Check that this record may follow. Permanent: it is in a phase that cannot follow."""


class RecordChanges(Generic[Record]):
    """Changes of records on disk and in memory. A change is not interrupted if its caller is cancelled."""

    def __init__(self, stored: StoredRecords[Record]) -> None:
        self._stored: StoredRecords[Record] = stored

    async def put(self, item: RecordedItem[Record], record: Record) -> None:
        """Replace the record. Nothing was changed after Transient: the disk is full; Permanent: an impossible phase."""
        await _change(item, record, self._stored.put)

    async def note(self, item: RecordedItem[Record], record: Record) -> None:
        """Replace the record; deferred if the disk is full, since the next server sees the change on the machine.

        Permanent: the phase is impossible; nothing was changed.
        """
        await _change(item, record, self._stored.note)


async def _change(item: RecordedItem[Record], record: Record, store: Callable[[Record], Awaitable[None]]) -> None:
    item.check(record)

    async def work() -> None:
        await store(record)
        item.record = record

    await shielded(work)
