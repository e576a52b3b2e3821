"""Sandbox and container records in the database."""

import sqlite3
from pathlib import Path

import msgspec

from pykubelet.base.errors import Conflict
from pykubelet.criserver.store.database import Database
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID, SandboxRecord

_sandbox = msgspec.json.Decoder(SandboxRecord)
_container = msgspec.json.Decoder(ContainerRecord)


class Store:
    """Where records outlive the process. The managers hold the same records in memory; they write here first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, path: Path) -> "Store":
        """Open the file, or make it."""
        return cls(await Database.open(path))

    async def close(self) -> None:
        """Close the file."""
        await self._database.close()

    async def load(self) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
        """Everything that is remembered."""

        def work(connection: sqlite3.Connection) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
            sandboxes = [_sandbox.decode(body) for (body,) in connection.execute("SELECT body FROM sandboxes")]
            containers = [_container.decode(body) for (body,) in connection.execute("SELECT body FROM containers")]
            return sandboxes, containers

        return await self._database.run(work)

    async def add_sandbox(self, record: SandboxRecord) -> None:
        """Reserve the name and remember the sandbox. Conflict names the holder of a taken name."""

        def work(connection: sqlite3.Connection) -> None:
            taken = connection.execute("SELECT id FROM sandboxes WHERE name = ?", (record.name,)).fetchone()
            if taken:
                raise Conflict(f"sandbox name {record.name!r} is reserved for {taken[0]}")
            body = msgspec.json.encode(record)
            connection.execute("INSERT INTO sandboxes VALUES (?, ?, ?)", (record.id, record.name, body))

        await self._database.run(work)

    async def put_sandbox(self, record: SandboxRecord) -> None:
        """Replace what is remembered of a sandbox."""
        body = msgspec.json.encode(record)
        await self._execute("UPDATE sandboxes SET body = ? WHERE id = ?", body, record.id)

    async def delete_sandbox(self, sandbox: SandboxID) -> None:
        """Forget a sandbox and free its name."""
        await self._execute("DELETE FROM sandboxes WHERE id = ?", sandbox)

    async def add_container(self, record: ContainerRecord) -> None:
        """Reserve the name in the sandbox and remember the container. Conflict names the holder of a taken name."""

        def work(connection: sqlite3.Connection) -> None:
            query = "SELECT id FROM containers WHERE sandbox = ? AND name = ?"
            taken = connection.execute(query, (record.sandbox_id, record.name)).fetchone()
            if taken:
                raise Conflict(f"container name {record.name!r} is reserved for {taken[0]}")
            body = msgspec.json.encode(record)
            row = (record.id, record.name, record.sandbox_id, body)
            connection.execute("INSERT INTO containers VALUES (?, ?, ?, ?)", row)

        await self._database.run(work)

    async def put_container(self, record: ContainerRecord) -> None:
        """Replace what is remembered of a container."""
        body = msgspec.json.encode(record)
        await self._execute("UPDATE containers SET body = ? WHERE id = ?", body, record.id)

    async def delete_container(self, container: ContainerID) -> None:
        """Forget a container and free its name."""
        await self._execute("DELETE FROM containers WHERE id = ?", container)

    async def exchange_fact(self, name: str, value: str) -> str:
        """Remember a fact; returns what was remembered before, or an empty text."""

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
            return str(row[0]) if row else ""

        return await self._database.run(work)

    async def _execute(self, statement: str, *values: str | bytes) -> None:
        await self._database.run(lambda connection: connection.execute(statement, values))
