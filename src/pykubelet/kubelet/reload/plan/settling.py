"""The time at which changed files are complete, so that they can be read. Pure.

A file that was moved into place or closed after writing is complete; a short pause lets several such changes count as
one. A writer that has not closed its file gets longer, and so does a file that vanishes: editors move the old version
away before they write the new one.
"""

import math
from enum import Enum, auto
from typing import Final

from pykubelet.base.units import Seconds

SETTLE: Final[Seconds] = 0.1
UNCLOSED: Final[Seconds] = 2.0
VANISHED: Final[Seconds] = 0.5
PATIENCE: Final[Seconds] = 10.0
"""Longest wait for files that change again and again."""


class FileChange(Enum):
    """Kind of change of a file or directory."""

    COMPLETE = auto()
    """Moved into place, or closed by its writer."""
    WRITTEN = auto()
    """Written, and still open."""
    VANISHED = auto()


_DELAYS: Final = {
    FileChange.COMPLETE: SETTLE,
    FileChange.WRITTEN: UNCLOSED,
    FileChange.VANISHED: VANISHED,
}


class SettlingChanges:
    """The changes that have not been read yet. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._due: dict[str, Seconds] = {}
        self._since: Seconds | None = None

    def note(self, name: str, change: FileChange, now: Seconds) -> None:
        """Record a change of the file ``name``."""
        self._since = now if self._since is None else self._since
        self._due[name] = now + _DELAYS[change]

    def due(self) -> Seconds:
        """Return when all changed files are complete; infinity if none has changed."""
        if self._since is None:
            return math.inf
        return min(max(self._due.values()), self._since + PATIENCE)

    def clear(self) -> None:
        """Forget the changes: the files are about to be read."""
        self._due.clear()
        self._since = None
