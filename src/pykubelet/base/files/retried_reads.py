"""Reads that are repeated after an error that may pass: no descriptor, no memory, an I/O error.

Such an error says nothing about a file. Without another attempt, one moment without descriptors at a start would have
all images pulled again, or records lost. Attempts are few, and together take a bounded time: a disk that fails for good
delays a start by seconds, however many files it has.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import PASSING
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_PAUSES: Final[tuple[Seconds, Seconds]] = (0.05, 0.25)
"""Pauses before the second and the third attempt."""
_MOST: Final[Seconds] = 2.0
"""Time in ``_WINDOW`` after which no further attempts are made: that of the pauses, and of the attempts after them."""
_WINDOW: Final[Seconds] = 60.0


class RetriedReads:
    """Repeats reads, within a bounded time for all of them. Any thread may use it."""

    def __init__(
        self, monotonic: Callable[[], Seconds] | None = None, pause: Callable[[Seconds], None] = time.sleep
    ) -> None:
        self._monotonic = monotonic or SystemClock().monotonic
        self._pause = pause
        self._lock = threading.Lock()
        self._spent: deque[tuple[Seconds, Seconds]] = deque()
        """Ends of further attempts within the window, and the time that each has taken with its pauses."""

    def read(self, function: Callable[[], _T]) -> _T:
        """Return the function's result; it is called up to three times while it raises an OSError that may pass.

        Raises its last error. Blocks for at most 0.3 s longer than the calls.
        """
        started = self._monotonic()
        try:
            return function()
        except OSError as error:
            begun = self._monotonic()
            # The next attempt probably takes as long as the first one did.
            took = begun - started
            if error.errno not in PASSING or not self._has_time(_PAUSES[0] + took):
                raise
        try:
            self._pause(_PAUSES[0])
            try:
                return function()
            except OSError as error:
                if error.errno not in PASSING or not self._has_time(self._monotonic() - begun + _PAUSES[1] + took):
                    raise
            self._pause(_PAUSES[1])
            return function()
        finally:
            self._note(self._monotonic() - begun)

    def _has_time(self, wanted: Seconds) -> bool:
        with self._lock:
            while self._spent and self._spent[0][0] < self._monotonic() - _WINDOW:
                self._spent.popleft()
            return sum(seconds for _, seconds in self._spent) + wanted <= _MOST

    def _note(self, spent: Seconds) -> None:
        with self._lock:
            self._spent.append((self._monotonic(), spent))


_shared: Final = RetriedReads()


def read_again(function: Callable[[], _T]) -> _T:
    """Return the function's result, as ``RetriedReads.read`` does, within the time for all reads of this process."""
    return _shared.read(function)
