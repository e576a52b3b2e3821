"""The time to read a changed file: soon, but not while it is half written. Pure.

A file that was moved into place is complete. One that was written in place is read when its writer has closed it: at
once if it is new, after 0.1 s if it has objects already, since a second write may follow the first. A file that
vanishes counts as removed after 0.5 s, since editors move the old version away before they write the new one. One that
is deleted and written again in this time was removed and is new, as upstream.
"""

import math
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds

SETTLE: Final[Seconds] = 0.1
"""Quiet time after a known file was written and closed."""

UNCLOSED: Final[Seconds] = 2.0
"""Quiet time after a write whose writer has not closed the file; it may never do so."""

VANISHED: Final[Seconds] = 0.5
"""Time in which a vanished file may reappear."""

PATIENCE: Final[Seconds] = 10.0
"""Maximum wait for a file that is written repeatedly."""


class ManifestChange(Enum):
    """Kind of change of a file."""

    MOVED_IN = auto()
    CLOSED = auto()
    WRITTEN = auto()
    TOUCHED = auto()
    VANISHED = auto()
    """Moved away, or not found."""
    DELETED = auto()


class _Wait(Struct):
    since: Seconds
    due: Seconds
    vanished: bool
    deleted: bool


class DueFiles(Struct, frozen=True, kw_only=True):
    """Files that are due."""

    gone: frozenset[str]
    """Those that have vanished for good."""
    again: frozenset[str]
    """Those that were deleted and written again."""


class PendingFiles:
    """Changed files that have not been read yet. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def note(self, name: str, change: ManifestChange, *, known: bool, now: Seconds) -> None:
        """Record a change; ``known``: the file has objects already."""
        delays = {
            ManifestChange.MOVED_IN: 0.0,
            ManifestChange.CLOSED: SETTLE if known else 0.0,
            ManifestChange.WRITTEN: UNCLOSED,
            ManifestChange.TOUCHED: SETTLE,
            ManifestChange.VANISHED: VANISHED,
            ManifestChange.DELETED: VANISHED,
        }
        earlier = self._waits.get(name)
        if change is ManifestChange.TOUCHED and earlier is not None:
            return
        since = earlier.since if earlier else now
        due = min(now + delays[change], since + PATIENCE)
        gone = change in (ManifestChange.VANISHED, ManifestChange.DELETED)
        deleted = known and (change is ManifestChange.DELETED or (earlier is not None and earlier.deleted))
        self._waits[name] = _Wait(since, due, gone, deleted)

    def take(self, now: Seconds) -> DueFiles:
        """Remove due files from the pending ones."""
        due = {name: wait for name, wait in self._waits.items() if wait.due <= now}
        for name in due:
            del self._waits[name]
        return DueFiles(
            gone=frozenset(name for name, wait in due.items() if wait.vanished),
            again=frozenset(name for name, wait in due.items() if wait.deleted and not wait.vanished),
        )

    def busy(self) -> frozenset[str]:
        """Return the files that must not be read yet."""
        return frozenset(self._waits)

    def next_due(self) -> Seconds:
        """Return the time at which the next file can be read; infinity if no file is pending."""
        return min((wait.due for wait in self._waits.values()), default=math.inf)
