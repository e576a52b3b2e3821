"""SQLite in write-ahead mode, used from its own thread.

``synchronous=NORMAL``: a commit always survives the death of the process; only a loss of power may lose the last
commits, and it also ends every container in them.
"""

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.criserver.numbered_files import ReplacementMark, find_numbered, parts_of
from pykubelet.criserver.record_store import damaged_files
from pykubelet.criserver.record_store.own_thread import OwnThread

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

VERSION = 1
_MOST = 1 << 30
"""Maximum size of a database file in bytes; a larger one is set aside without a check."""
_SCHEMA = (
    "CREATE TABLE sandboxes (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE containers (id TEXT PRIMARY KEY, name TEXT NOT NULL, sandbox TEXT NOT NULL, body BLOB NOT NULL, "
    "UNIQUE (sandbox, name)) WITHOUT ROWID",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_QUERIES = (
    "SELECT id, name, body FROM sandboxes",
    "SELECT id, name, sandbox, body FROM containers",
    "SELECT * FROM facts",
)
# Errors of the machine rather than of the file, which may be intact (sqlite.org/rescode.html).
_OUTSIDE = frozenset(
    (
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM),
    )
)
_PARTS = ("", "-wal", "-shm")
"""Endings of the names of a database file, and of those that SQLite keeps beside it."""

Restore = Callable[[sqlite3.Connection], int]
"""Fills new tables; returns the number of restored records."""


class Database:
    """A connection and its thread. Open it with ``await Database.open(path, restore, clock)``."""

    def __init__(self, *, path: Path, restore: Restore, clock: Clock) -> None:
        self._path = path
        self._first = path
        self._mark = ReplacementMark(path)
        self._made: list[Path] = []
        """The damaged files that this start has set aside."""
        self._restore = restore
        self._clock = clock
        self._thread = OwnThread("store")
        self._connection: sqlite3.Connection | None = None
        self.intact = True
        """False: the file was damaged or lost, so records may be missing."""

    @classmethod
    async def open(cls, path: Path, restore: Restore, clock: Clock) -> "Database":
        """Open or create the file. A damaged one is set aside, logged as an error, and re-created by ``restore``.

        A file of a newer schema is treated in the same way. Transient: the disk is full or fails; nothing was changed.
        """
        database = cls(path=path, restore=restore, clock=clock)
        try:
            await database._thread.run(database._open)
        except BaseException:
            database._thread.end()
            raise
        return database

    async def run(
        self,
        work: Callable[[sqlite3.Connection], _T],
        committed: Callable[[], None] = lambda: None,
        refused: Callable[[PykubeletError], None] = lambda _: None,
    ) -> _T:
        """Run the work as one transaction in the thread; it is committed when this returns.

        It runs to its end: a cancellation of the caller is raised afterwards. ``committed`` or ``refused`` is called in
        the thread before any other work.

        Transient: the disk is full or fails; Permanent: the file is damaged. In both cases nothing is changed.
        """

        def in_thread() -> _T:
            try:
                done = self._transaction(work)
            except PykubeletError as error:
                refused(error)
                raise
            committed()
            return done

        return await self._thread.run(in_thread)

    async def close(self) -> None:
        """Checkpoint the write-ahead log and close the file."""
        await self._thread.run(self._close)
        self._thread.end()

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        assert self._connection is not None
        try:
            with self._connection:
                return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error | OSError) -> PykubeletError:
        if isinstance(error, OSError) or _is_outside(error):
            return Transient(f"{self._path} cannot be read or written ({error}); is its disk full or read-only?")
        return Permanent(f"{self._path} is damaged ({error}); restart the server, which restores it from the copies")

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._choose_file()
            self._set_aside_obstacles()
            try:
                self._connection = self._connect()
            except sqlite3.DatabaseError as error:
                if _is_outside(error):
                    raise
                self._set_aside(self._path, error)
                self._connection = self._connect()
            self._mark.clear()
            if self._made:
                damaged_files.remove_old(self._first, _PARTS, self._made)
        except (sqlite3.Error, OSError) as error:
            raise self._failure(error) from error

    def _choose_file(self) -> None:
        """Choose the file to open. Of several the copies tell which has the newest records: all are set aside then.

        So are those that are left of a start that has not finished to replace them.
        """
        found, doubtful = find_numbered(self._path, _PARTS), self._mark.is_set()
        self._path = found.path
        if found.is_next or doubtful:
            self.intact = False
            self._mark.set()
        if found.others or doubtful:
            for file in (*found.others, *(() if found.is_next else (found.path,))):
                self._set_aside(
                    file, sqlite3.DatabaseError("there is or was another one, and either may be out of date")
                )

    def _set_aside_obstacles(self) -> None:
        """Set aside files that cannot be the database, or are too large to check."""
        for part in parts_of(self._path, _PARTS):
            if os.path.lexists(part) and not part.is_file():
                self._set_aside(self._path, sqlite3.DatabaseError(f"{part.name} is not a regular file"))
        if self._path.exists() and self._path.stat().st_size > _MOST:
            self._set_aside(self._path, sqlite3.DatabaseError(f"it is larger than {_MOST} bytes"))

    def _connect(self) -> sqlite3.Connection:
        # Requests contain secrets; SQLite gives the files beside it the same mode.
        self._path.touch(mode=0o600)
        self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(f"quick_check failed: {state}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise sqlite3.DatabaseError(
                    f"written by a newer version: schema {version}, this one supports {VERSION}"
                )
            if version == 0:
                self._make(connection)
            for query in _QUERIES:
                connection.execute(query).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self, connection: sqlite3.Connection) -> None:
        """Create the tables and restore the records, in one transaction."""
        connection.execute("BEGIN")
        with connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            restored = self._restore(connection)
            connection.execute(f"PRAGMA user_version={VERSION}")
        if restored or not self.intact:
            self.intact = False
            _log.error(
                "state file damaged or lost: restored from the copies of its records",
                extra={"file": str(self._path), "records": restored},
            )

    def _set_aside(self, path: Path, error: sqlite3.DatabaseError) -> None:
        self.intact = False
        self._mark.set()
        if not any(map(os.path.lexists, parts_of(path, _PARTS))):
            return
        aside = damaged_files.free_name(path, self._clock.now())
        _log.error(
            "state file unusable: set aside",
            extra={"file": str(path), "kept_as": str(aside), "error": str(error)},
        )
        for part, kept in zip(parts_of(path, _PARTS), parts_of(aside, _PARTS), strict=True):
            if os.path.lexists(part):
                part.rename(kept)
        self._made.append(aside)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_outside(error: sqlite3.Error) -> bool:
    """Whether the error is not about the file itself. The low byte of a code is its primary code."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return False
    return code & 0xFF in _OUTSIDE
