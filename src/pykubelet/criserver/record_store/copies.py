"""A copy of each record in its own file, from which the database is restored when it is damaged. Blocking.

A copy is written just before its transaction is committed: it is as new as the database or one step ahead of it, and
recovery can start from either. An intact database overwrites copies that an interruption has left different.
"""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pykubelet.base.files.atomic import remove_temporary_files, write_atomic
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.directories import set_aside, set_aside_obstacle

_log = logging.getLogger(__name__)
_SUFFIX = ".json"
_LIMIT = 64 * MIB


class RecordCopies:
    """The copies of one kind of record, by id."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def prepare(self) -> None:
        """Create the directory. OSError: for example, the disk is full."""
        for directory in (self._directory.parent, self._directory):
            set_aside_obstacle(directory, directory=True)
            directory.mkdir(mode=0o700, exist_ok=True)
        remove_temporary_files(self._directory)

    def put(self, identity: str, body: bytes) -> None:
        """Write a copy. OSError."""
        try:
            write_atomic(self._path(identity), body)
        except IsADirectoryError:
            set_aside(self._path(identity))
            write_atomic(self._path(identity), body)

    def drop(self, identity: str) -> None:
        """Remove a copy; no error if missing."""
        try:
            self._path(identity).unlink(missing_ok=True)
        except IsADirectoryError:
            set_aside(self._path(identity))

    def get(self, identity: str) -> bytes | None:
        """Read a copy; None: it is missing or cannot be read."""
        try:
            return read_again(partial(read_regular, self._path(identity), _LIMIT))
        except OSError:
            return None

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Read all copies; unreadable ones are logged and omitted."""
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            body = self.get(path.stem)
            if body:
                yield path.stem, body
            else:
                _log.error("cannot read the copy of a record", extra={"file": str(path)})

    def keep(self, wanted: dict[str, bytes]) -> None:
        """Write and remove copies to match ``wanted``; failures (an immutable file, say) are logged."""
        have = {path.stem for path in self._directory.glob(f"*{_SUFFIX}")}
        for identity in have | set(wanted):
            try:
                if identity not in wanted:
                    self.drop(identity)
                elif self.get(identity) != wanted[identity]:
                    self.put(identity, wanted[identity])
            except OSError as error:
                _log.error("cannot update the copy of a record", extra={"id": identity, "error": str(error)})

    def _path(self, identity: str) -> Path:
        return self._directory / f"{identity}{_SUFFIX}"
