"""Sandbox and container records in the database, with a copy of each in a file."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.errors import Conflict
from pykubelet.criserver.store.copies import RecordCopies
from pykubelet.criserver.store.database import Database
from pykubelet.criserver.store.writer import Work, Writer
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_Record = TypeVar("_Record", SandboxRecord, ContainerRecord)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[_Record]):
    """The differences between records of sandboxes and of containers."""

    table: str
    decoder: msgspec.json.Decoder[_Record]
    check: Callable[[bytes], object]
    """Parses the request in a record; DecodeError: it is damaged."""
    row: Callable[[_Record], tuple[str, ...]]
    """The columns of a record before the body."""

    def decode(self, identity: str, body: bytes | None) -> _Record | None:
        """Decode the record of that id; None: it is damaged."""
        try:
            record = self.decoder.decode(body or b"")
            self.check(record.config)
        except (msgspec.DecodeError, DecodeError, UnicodeDecodeError):
            return None
        return record if record.id == identity else None

    def insert(self, connection: sqlite3.Connection, record: _Record, body: bytes, instead: str = "") -> int:
        """Insert a row; return the number of inserted rows. ``instead``: a conflict clause, as ``OR IGNORE``."""
        row = (*self.row(record), body)
        places = ", ".join("?" * len(row))
        return connection.execute(f"INSERT {instead} INTO {self.table} VALUES ({places})", row).rowcount


_SANDBOX = _Kind(
    "sandboxes",
    msgspec.json.Decoder(SandboxRecord),
    pb.PodSandboxConfig.FromString,
    lambda each: (each.id, each.name),
)
_CONTAINER = _Kind(
    "containers",
    msgspec.json.Decoder(ContainerRecord),
    pb.ContainerConfig.FromString,
    lambda each: (each.id, each.name, each.sandbox_id),
)


class Store:
    """The durable records. The managers hold the same records in memory; they write here first."""

    def __init__(self, *, database: Database, sandboxes: RecordCopies, containers: RecordCopies, clock: Clock) -> None:
        self._database = database
        self._sandboxes = sandboxes
        self._containers = containers
        self._writer = Writer(database, clock)
        self._intact = database.intact

    @classmethod
    async def open(cls, path: Path, clock: Clock | None = None) -> "Store":
        """Open or create the file; a damaged one is restored from the copies. Permanent, Transient."""
        sandboxes, containers = (
            RecordCopies(path.with_name("records") / table) for table in ("sandboxes", "containers")
        )

        def restore(connection: sqlite3.Connection) -> int:
            return _restore(connection, sandboxes, _SANDBOX) + _restore(connection, containers, _CONTAINER)

        clock = clock or SystemClock()
        database = await Database.open(path, restore, clock)
        return cls(database=database, sandboxes=sandboxes, containers=containers, clock=clock)

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

        def work(connection: sqlite3.Connection) -> tuple[list[SandboxRecord], list[ContainerRecord]]:
            sandboxes = self._loaded(connection, _SANDBOX, self._sandboxes)
            return sandboxes, self._loaded(connection, _CONTAINER, self._containers)

        return await self._database.run(work)

    async def add_sandbox(self, record: SandboxRecord) -> None:
        """Reserve the name and add the record of a sandbox. Conflict, with the holder: it is taken; Transient."""

        def work(connection: sqlite3.Connection) -> None:
            taken = connection.execute("SELECT id FROM sandboxes WHERE name = ?", (record.name,)).fetchone()
            if taken:
                raise Conflict(f"sandbox name {record.name!r} is reserved for {taken[0]}")
            body = msgspec.json.encode(record)
            _SANDBOX.insert(connection, record, body)
            self._sandboxes.put(record.id, body)

        await self._writer.change(work)

    async def put_sandbox(self, record: SandboxRecord) -> None:
        """Replace the record of a sandbox. Transient: the disk is full; nothing was changed."""
        await self._writer.change(_replacing(_SANDBOX, record, self._sandboxes))

    async def note_sandbox(self, record: SandboxRecord) -> None:
        """Like ``put_sandbox``, but deferred if the disk is full: the next server sees the change on the machine."""
        await self._writer.change_or_defer(record.id, _replacing(_SANDBOX, record, self._sandboxes))

    async def delete_sandbox(self, sandbox: SandboxID) -> None:
        """Delete the records of a sandbox and its containers, and free the names; deferred if the disk is full."""
        forget = _deleting("sandboxes", sandbox, self._sandboxes)

        def work(connection: sqlite3.Connection) -> None:
            for row in connection.execute("SELECT id FROM containers WHERE sandbox = ?", (sandbox,)).fetchall():
                _deleting("containers", row[0], self._containers)(connection)
            forget(connection)

        await self._writer.change_or_defer(sandbox, work)

    async def add_container(self, record: ContainerRecord) -> None:
        """Reserve the name and add the record of a container. Conflict, with the holder: it is taken; Transient."""

        def work(connection: sqlite3.Connection) -> None:
            query = "SELECT id FROM containers WHERE sandbox = ? AND name = ?"
            taken = connection.execute(query, (record.sandbox_id, record.name)).fetchone()
            if taken:
                raise Conflict(f"container name {record.name!r} is reserved for {taken[0]}")
            body = msgspec.json.encode(record)
            _CONTAINER.insert(connection, record, body)
            self._containers.put(record.id, body)

        await self._writer.change(work)

    async def put_container(self, record: ContainerRecord) -> None:
        """Replace the record of a container. Transient: the disk is full; nothing was changed."""
        await self._writer.change(_replacing(_CONTAINER, record, self._containers))

    async def note_container(self, record: ContainerRecord) -> None:
        """Like ``put_container``, but deferred if the disk is full: the next server sees the change on the machine."""
        await self._writer.change_or_defer(record.id, _replacing(_CONTAINER, record, self._containers))

    async def delete_container(self, container: ContainerID) -> None:
        """Delete the record of a container and free its name; deferred if the disk is full."""
        await self._writer.change_or_defer(container, _deleting("containers", container, self._containers))

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

    def _loaded(self, connection: sqlite3.Connection, kind: _Kind[_Record], copies: RecordCopies) -> list[_Record]:
        copies.prepare()
        found: dict[str, bytes] = {}
        records: list[_Record] = []
        damaged: list[str] = []
        for identity, body in connection.execute(f"SELECT id, body FROM {kind.table}"):
            record = kind.decode(identity, body)
            if record is None:
                damaged.append(identity)
                body = copies.get(identity)
                record = kind.decode(identity, body)
                extra = {"id": identity, "table": kind.table, "copy": "used" if record else "damaged too"}
                _log.error("record in the state file damaged", extra=extra)
            if record is None:
                self._intact = False
                continue
            records.append(record)
            found[identity] = body
        for identity in damaged:
            if identity in found:
                connection.execute(f"UPDATE {kind.table} SET body = ? WHERE id = ?", (found[identity], identity))
        if self._intact:
            copies.keep(found)
        return records


def _restore(connection: sqlite3.Connection, copies: RecordCopies, kind: _Kind[_Record]) -> int:
    """Fill a table from copies. Of two with one name, which an interrupted removal can leave, the newer is used."""
    copies.prepare()
    found: list[tuple[_Record, bytes]] = []
    for identity, body in copies.all():
        record = kind.decode(identity, body)
        if record is None:
            _log.error("copy of a record damaged", extra={"id": identity, "table": kind.table})
        else:
            found.append((record, body))
    found.sort(key=lambda each: each[0].created_at, reverse=True)
    return sum(kind.insert(connection, record, body, "OR IGNORE") for record, body in found)


def _replacing(kind: _Kind[_Record], record: _Record, copies: RecordCopies) -> Work:
    body = msgspec.json.encode(record)

    def work(connection: sqlite3.Connection) -> None:
        done = connection.execute(f"UPDATE {kind.table} SET body = ? WHERE id = ?", (body, record.id))
        if done.rowcount:
            copies.put(record.id, body)

    return work


def _deleting(table: str, identity: str, copies: RecordCopies) -> Work:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (identity,))
        copies.drop(identity)

    return work
