"""SQLite in write-ahead mode, used from one thread of its own.

``synchronous=NORMAL``: a commit survives the death of the process, always; only a loss of power may take the last
ones away, and then it has also ended every container they speak of.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pykubelet.base.errors import Permanent

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

VERSION = 1
_SCHEMA = """
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE containers (id TEXT PRIMARY KEY, name TEXT NOT NULL, sandbox TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (sandbox, name)) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class Database:
    """A connection and its thread. Open it with ``await Database.open(path)``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._connection: sqlite3.Connection | None = None

    @classmethod
    async def open(cls, path: Path) -> "Database":
        """Open or make the file. A damaged one is set aside with a loud message, since no record is better than a wrong
        one; what it spoke of is found on the machine and undone. Permanent: made by a newer version of the server.
        """
        database = cls(path)
        try:
            await asyncio.get_running_loop().run_in_executor(database._thread, database._open)
        except BaseException:
            database._thread.shutdown()
            raise
        return database

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run the work as one transaction in the thread; it is committed when this returns."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    async def close(self) -> None:
        """Write the log back and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        assert self._connection is not None
        with self._connection:
            return work(self._connection)

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
            self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        # Requests hold secrets; the files beside it get the same mode.
        self._path.touch(mode=0o600)
        self._path.chmod(0o600)
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(f"quick_check says: {state}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise Permanent(
                    f"{self._path} was written by a newer version (schema {version}, this one knows {VERSION}); "
                    "use that version, or another root folder"
                )
            if version == 0:
                with connection:
                    connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")
            connection.execute("SELECT count(*) FROM sandboxes").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.damaged-{number}")).exists():
            number += 1
        _log.error(
            "the state file is damaged; it is set aside and all containers it knew are removed",
            extra={"file": str(self._path), "kept_as": str(aside), "error": str(error)},
        )
        if self._path.exists():
            self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
