"""Faults of the runtime server's records: damaged, torn, older or newer at its start. ``pykubelet criserver`` only."""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.faults.node import Node
from pykubelet.base.errors import PykubeletError

_GARBAGE_BYTES = 20_000
_NEWER = 1000

Damage = Callable[[Path, Path], None]
"""A function that damages files below the server's root and run directories."""


def damaged(what: Damage) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """The server is killed, files are damaged, and the server is started again."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        node.runtime.signal(signal.SIGKILL)
        home = node.runtime.home
        what(home / "root", home / "run")
        node.start_runtime()
        yield

    return act


@contextlib.contextmanager
def newer_schema(node: Node) -> Iterator[None]:
    """The server was downgraded; it must not change anything until the newer version is back."""
    database = node.runtime.home / "root" / "state.db"
    node.runtime.signal(signal.SIGKILL)
    version = _schema(database, _NEWER)
    with contextlib.suppress(PykubeletError):
        node.start_runtime()
        node.runtime.signal(signal.SIGKILL)
    yield
    _schema(database, version)
    node.start_runtime()


def garbage_database(root: Path, run: Path) -> None:
    """The database consists of random bytes."""
    _without_log(root)
    (root / "state.db").write_bytes(os.urandom(_GARBAGE_BYTES))


def half_database(root: Path, run: Path) -> None:
    """The second half of the database is missing."""
    _without_log(root)
    path = root / "state.db"
    os.truncate(path, path.stat().st_size // 2)


def empty_database(root: Path, run: Path) -> None:
    """The database is empty."""
    _without_log(root)
    os.truncate(root / "state.db", 0)


def older_schema(root: Path, run: Path) -> None:
    """The database has an older schema without one of the tables."""
    path = root / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE facts")
        connection.execute("PRAGMA user_version=1")


def torn_copies(root: Path, run: Path) -> None:
    """The copies of the database's records are truncated."""
    _cut((root / "records").rglob("*.json"))


def torn_networks(root: Path, run: Path) -> None:
    """The records of the pods' network attachments are truncated."""
    _cut((root / "network").glob("*.json"))


def torn_layers(root: Path, run: Path) -> None:
    """The records of image layers and of the root file systems of running containers are truncated."""
    _cut((root / "storage" / "meta").glob("*.json"))
    _cut((root / "storage" / "containers").glob("*/rootfs.json"))


def torn_bundles(root: Path, run: Path) -> None:
    """The OCI configurations of running containers are truncated."""
    _cut((run / "bundles").glob("*/config.json"))


def _cut(paths: Iterable[Path]) -> None:
    for path in list(paths):
        os.truncate(path, path.stat().st_size // 2)


def _without_log(root: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (root / f"state.db{suffix}").unlink(missing_ok=True)


def _schema(path: Path, version: int) -> int:
    """Set the schema version; returns the previous one."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        before = int(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.execute(f"PRAGMA user_version={version}")
    return before
