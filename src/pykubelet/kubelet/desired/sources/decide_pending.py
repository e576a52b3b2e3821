"""When to read a file that is being changed: soon, but not while it is half written. Pure.

A file that was moved into place is whole. One that was written in place is read when its writer has closed it:
at once if it is new, a moment later if it gives pods already, since a second write may follow the first. A file
that vanishes is given a moment to come back, as editors move the old version away before they write the new.
"""

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from pykubelet.base.units import Seconds

SETTLE: Final[Seconds] = 0.1
"""Quiet time after a known file was written and closed."""

UNCLOSED: Final[Seconds] = 2.0
"""Quiet time after a write whose writer has not closed the file; it may never do so."""

VANISHED: Final[Seconds] = 0.5
"""How long a vanished file may take to come back."""

PATIENCE: Final[Seconds] = 10.0
"""Longest wait for a file that is written again and again."""


class Change(Enum):
    """What happened to a file."""

    MOVED_IN = auto()
    CLOSED = auto()
    WRITTEN = auto()
    TOUCHED = auto()
    VANISHED = auto()


@dataclass(slots=True)
class _Wait:
    since: Seconds
    due: Seconds
    vanished: bool


class PendingFiles:
    """Files with changes that are not looked at yet. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def note(self, name: str, change: Change, *, known: bool, now: Seconds) -> None:
        """A change was seen; ``known`` tells whether the file gives objects already."""
        delays = {
            Change.MOVED_IN: 0.0,
            Change.CLOSED: SETTLE if known else 0.0,
            Change.WRITTEN: UNCLOSED,
            Change.TOUCHED: SETTLE,
            Change.VANISHED: VANISHED,
        }
        earlier = self._waits.get(name)
        if change is Change.TOUCHED and earlier is not None:
            return
        since = earlier.since if earlier else now
        due = min(now + delays[change], since + PATIENCE)
        self._waits[name] = _Wait(since, due, change is Change.VANISHED)

    def take(self, now: Seconds) -> frozenset[str]:
        """The files whose vanishing is certain now; all that is due is no longer pending afterwards."""
        due = {name: wait for name, wait in self._waits.items() if wait.due <= now}
        for name in due:
            del self._waits[name]
        return frozenset(name for name, wait in due.items() if wait.vanished)

    def busy(self) -> frozenset[str]:
        """The files that must not be read yet."""
        return frozenset(self._waits)

    def next_due(self) -> Seconds:
        """When the next file can be read; infinity if none is pending."""
        return min((wait.due for wait in self._waits.values()), default=math.inf)
