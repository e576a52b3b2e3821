"""Sandbox and container records in the database, with a copy of each in a file."""

import sqlite3
from functools import partial
from pathlib import Path

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.criserver.record_store.copies import RecordCopies
from pykubelet.criserver.record_store.database import Database
from pykubelet.criserver.record_store.record_table import CONTAINERS, SANDBOXES, RecordTable
from pykubelet.criserver.record_store.stored_records import StoredRecords
from pykubelet.criserver.record_store.writer import Writer
from pykubelet.criserver.types import ContainerRecord, SandboxRecord


class Store:
    """The durable records. Their owners hold the same records in memory; they write here first."""

    def __init__(
        self,
        database: Database,
        *,
        sandboxes: RecordTable[SandboxRecord],
        containers: RecordTable[ContainerRecord],
        clock: Clock,
    ) -> None:
        self._database = database
        self._tables = (sandboxes, containers)
        self._writer = Writer(database, clock)
        self._intact = database.intact
        self.sandboxes = StoredRecords(
            self._writer, sandboxes, delete=partial(_delete_with_containers, sandboxes, containers)
        )
        """The records of sandboxes; those of its containers belong to a sandbox."""
        self.containers = StoredRecords(self._writer, containers, delete=containers.delete)
        """The records of containers."""

    @classmethod
    async def open(cls, path: Path, clock: Clock | None = None) -> "Store":
        """Open or create the file; a damaged one is restored from the copies. Permanent, Transient."""
        copies = path.with_name("records")
        sandboxes = RecordTable(kind=SANDBOXES, copies=RecordCopies(copies / SANDBOXES.table))
        containers = RecordTable(kind=CONTAINERS, copies=RecordCopies(copies / CONTAINERS.table))

        def restore(connection: sqlite3.Connection) -> int:
            return sandboxes.restore(connection) + containers.restore(connection)

        clock = clock or SystemClock()
        database = await Database.open(path, restore, clock)
        return cls(database, sandboxes=sandboxes, containers=containers, clock=clock)

    async def close(self) -> None:
        """Write deferred changes, if the disk has space now, and close the file."""
        await self._writer.close()

    async def write_deferred(self) -> None:
        """Write deferred changes when the disk has space again; runs until cancelled."""
        await self._writer.write_deferred()

    @property
    def intact(self) -> bool:
        """Whether all records are known. Otherwise objects without a record must not be removed."""
        return self._intact

    async def load(self) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
        """Load all records. A damaged record is replaced by its copy."""
        sandboxes, containers = self._tables

        def work(connection: sqlite3.Connection) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
            found, self._intact = sandboxes.load(connection, intact=self._intact)
            parts, self._intact = containers.load(connection, intact=self._intact)
            return found, parts

        return await self._database.run(work)

    async def exchange_fact(self, name: str, value: str) -> str:
        """Store a fact; return the previous value, or an empty string. Deferred if the disk is full."""

        def read(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            return str(row[0]) if row else ""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

        before = await self._database.run(read)
        if before != value:
            await self._writer.change_or_defer(f"fact {name}", write)
        return before


def _delete_with_containers(
    sandboxes: RecordTable[SandboxRecord],
    containers: RecordTable[ContainerRecord],
    sandbox: str,
    connection: sqlite3.Connection,
) -> None:
    for row in connection.execute("SELECT id FROM containers WHERE sandbox = ?", (sandbox,)).fetchall():
        containers.delete(row[0], connection)
    sandboxes.delete(sandbox, connection)
