"""A copy of each record in a file of its own, from which the database is made anew when it is damaged. Blocking.

A copy is written just before its transaction is committed: it is as new as the database or one step ahead of it, and
recovery finds its way from either. A sound database sets right what a cut has left.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from pykubelet.base.atomic import remove_remains, write_atomic

_log = logging.getLogger(__name__)
_SUFFIX = ".json"


class Copies:
    """The copies of one kind of records, by id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self) -> None:
        """Make the folder. OSError: the disk is full, say."""
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        remove_remains(self._folder)

    def put(self, identity: str, body: bytes) -> None:
        """Write one. OSError."""
        write_atomic(self._path(identity), body)

    def drop(self, identity: str) -> None:
        """Remove one; done is done."""
        self._path(identity).unlink(missing_ok=True)

    def get(self, identity: str) -> bytes | None:
        """One of them; None when there is none that can be read."""
        try:
            return self._path(identity).read_bytes()
        except OSError:
            return None

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Those that can be read."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            body = self.get(path.stem)
            if body:
                yield path.stem, body
            else:
                _log.error("a copy of a record cannot be read", extra={"file": str(path)})

    def keep(self, wanted: dict[str, bytes]) -> None:
        """Have exactly these. OSError."""
        have = {path.stem for path in self._folder.glob(f"*{_SUFFIX}")}
        for identity, body in wanted.items():
            if self.get(identity) != body:
                self.put(identity, body)
        for identity in have - set(wanted):
            self.drop(identity)

    def _path(self, identity: str) -> Path:
        return self._folder / f"{identity}{_SUFFIX}"
