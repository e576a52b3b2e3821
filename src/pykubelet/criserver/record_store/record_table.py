"""The records of one kind, sandboxes or containers, in the database, with a copy of each in a file.

All functions here run in the database's thread, in its transaction.
"""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec
from google.protobuf.message import DecodeError
from msgspec import Struct

from pykubelet.base.errors import Conflict
from pykubelet.criserver.record_store.copies import RecordCopies
from pykubelet.criserver.types import ContainerRecord, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
Record = TypeVar("Record", SandboxRecord, ContainerRecord)


class RecordKind(Struct, Generic[Record], frozen=True, kw_only=True):
    """The differences between records of sandboxes and of containers."""

    noun: str
    table: str
    decoder: msgspec.json.Decoder[Record]
    check: Callable[[bytes], object]
    """Parses the request in a record; DecodeError: it is damaged."""
    unique: tuple[str, ...]
    """The columns between the id and the body. Together they have a value once."""
    values: Callable[[Record], tuple[str, ...]]
    """Returns the values of these columns."""

    def decode(self, identity: str, body: bytes | None) -> Record | None:
        """Decode the record of that id; None: it is damaged."""
        try:
            record = self.decoder.decode(body or b"")
            self.check(record.config)
        except (msgspec.DecodeError, DecodeError, UnicodeDecodeError):
            return None
        return record if record.id == identity else None


SANDBOXES: Final = RecordKind(
    noun="sandbox",
    table="sandboxes",
    decoder=msgspec.json.Decoder(SandboxRecord),
    check=pb.PodSandboxConfig.FromString,
    unique=("name",),
    values=lambda each: (each.name,),
)
CONTAINERS: Final = RecordKind(
    noun="container",
    table="containers",
    decoder=msgspec.json.Decoder(ContainerRecord),
    check=pb.ContainerConfig.FromString,
    unique=("name", "sandbox"),
    values=lambda each: (each.name, each.sandbox_id),
)


class RecordTable(Struct, Generic[Record], frozen=True, kw_only=True):
    """A table of the database, and its copies."""

    kind: RecordKind[Record]
    copies: RecordCopies

    def add(self, record: Record, connection: sqlite3.Connection) -> None:
        """Reserve the name and add the record. Conflict, with the holder: the name is taken."""
        same = " AND ".join(f"{column} = ?" for column in self.kind.unique)
        query = f"SELECT id FROM {self.kind.table} WHERE {same}"
        taken = connection.execute(query, self.kind.values(record)).fetchone()
        if taken:
            raise Conflict(f"{self.kind.noun} name {record.name!r} is reserved for {taken[0]}")
        body = msgspec.json.encode(record)
        self._insert(connection, record, body)
        self.copies.put(record.id, body)

    def replace(self, record: Record, connection: sqlite3.Connection) -> None:
        """Replace the record; no error if it is missing."""
        body = msgspec.json.encode(record)
        done = connection.execute(f"UPDATE {self.kind.table} SET body = ? WHERE id = ?", (body, record.id))
        if done.rowcount:
            self.copies.put(record.id, body)

    def delete(self, identity: str, connection: sqlite3.Connection) -> None:
        """Delete the record and free its name; no error if it is missing."""
        connection.execute(f"DELETE FROM {self.kind.table} WHERE id = ?", (identity,))
        self.copies.drop(identity)

    def load(self, connection: sqlite3.Connection, *, intact: bool) -> tuple[list[Record], bool]:
        """Load all records, and return whether all are known. A damaged record is replaced by its copy.

        ``intact``: whether all records of the other tables are known. Otherwise no copy is removed.
        """
        kind, copies = self.kind, self.copies
        copies.prepare()
        found: dict[str, bytes] = {}
        records: list[Record] = []
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
                intact = False
                continue
            records.append(record)
            found[identity] = body
        for identity in damaged:
            if identity in found:
                connection.execute(f"UPDATE {kind.table} SET body = ? WHERE id = ?", (found[identity], identity))
        if intact:
            copies.keep(found)
        return records, intact

    def restore(self, connection: sqlite3.Connection) -> int:
        """Fill the table from the copies; return their number.

        Of two with one name, which an interrupted removal can leave, the newer is used.
        """
        self.copies.prepare()
        found: list[tuple[Record, bytes]] = []
        for identity, body in self.copies.all():
            record = self.kind.decode(identity, body)
            if record is None:
                _log.error("copy of a record damaged", extra={"id": identity, "table": self.kind.table})
            else:
                found.append((record, body))
        found.sort(key=lambda each: each[0].created_at, reverse=True)
        return sum(self._insert(connection, record, body, "OR IGNORE") for record, body in found)

    def _insert(self, connection: sqlite3.Connection, record: Record, body: bytes, instead: str = "") -> int:
        """Insert a row; return the number of inserted rows. ``instead``: a conflict clause, as ``OR IGNORE``."""
        row: Sequence[str | bytes] = (record.id, *self.kind.values(record), body)
        places = ", ".join("?" * len(row))
        return connection.execute(f"INSERT {instead} INTO {self.kind.table} VALUES ({places})", row).rowcount
