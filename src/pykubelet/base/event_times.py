"""Conversion of event times from the wall clock to the monotonic clock.

A runtime says when a container ended, an API server when a pod started, both in wall time, which may jump by an hour
while a pod waits. The age of an event is computed once, when its time is first seen; from then on only the monotonic
clock counts.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds

_MOST: Final = 4096
"""Event times remembered. The one unused for longest is dropped first, and computed again when it is needed."""


class EventTimes:
    """Remembers the monotonic time of events by a key that names the event, such as a container's id."""

    def __init__(self, clock: Clock, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[Hashable, tuple[Seconds, Seconds]] = OrderedDict()

    def monotonic(self, key: Hashable, wall: Seconds) -> Seconds:
        """The monotonic time of an event at ``wall`` (Unix seconds). An event in the future counts as happening now."""
        known = self._known.get(key)
        if known is None or known[0] != wall:
            age = max(0.0, self._clock.now() - wall)
            known = self._known[key] = (wall, self._clock.monotonic() - age)
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return known[1]

    def forget(self, key: Hashable) -> None:
        """Drop an event that is no longer needed. Idempotent."""
        self._known.pop(key, None)
