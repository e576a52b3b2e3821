"""Back-off per key, for crash loops, image pulls and pod syncs.

The caller passes the time in, so it works with any clock and needs no timer; the random function can be given, too.
The rules are those of client-go's flowcontrol.Backoff, so users see the delays that they know.
"""

import random
from collections.abc import Callable, Hashable

from msgspec import Struct

from pykubelet.base.units import Seconds

_FEW = 128
"""Number of series up to which no search for stale ones is made."""


class _Entry(Struct):
    delay: Seconds
    updated: Seconds


class Backoff:
    """Delays which grow by `factor` from `initial` to `maximum` seconds, one series per key.

    A series starts again at `initial` when the event that asks for the next delay comes more than `reset_after`
    seconds (default: twice the maximum) after the last one. `jitter` adds up to that share of the delay, at random.
    """

    def __init__(
        self,
        initial: Seconds,
        maximum: Seconds,
        *,
        factor: float = 2.0,
        reset_after: Seconds | None = None,
        jitter: float = 0.0,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._initial = initial
        self._maximum = maximum
        self._factor = factor
        self._reset_after = 2 * maximum if reset_after is None else reset_after
        self._jitter = jitter
        self._rand = rand
        self._entries: dict[Hashable, _Entry] = {}
        self._collect_at = _FEW

    def __len__(self) -> int:
        return len(self._entries)

    def next(self, key: Hashable, now: Seconds, event: Seconds | None = None) -> Seconds:
        """Record a failure and return the delay to wait before the next attempt.

        `event` is the time of the failure (a container's finish time, for example) if that is not `now`; it decides
        whether the series is stale and starts again.
        """
        entry = self._entries.get(key)
        if entry is None or self._stale(entry, now if event is None else event):
            delay = self._initial
        else:
            delay = entry.delay * self._factor
        delay = min(jittered(delay, self._jitter, self._rand), self._maximum)
        self._entries[key] = _Entry(delay, now)
        if len(self._entries) > self._collect_at:
            # Drops keys that failed once and are never used again, such as those of removed pods.
            self.gc(now)
            self._collect_at = max(_FEW, 2 * len(self._entries))
        return delay

    def limit(self, maximum: Seconds) -> None:
        """Use this maximum from now on, also for the present delays."""
        self._maximum = maximum
        for entry in self._entries.values():
            entry.delay = min(entry.delay, maximum)

    def delay(self, key: Hashable) -> Seconds:
        """The present delay of the key; 0 if the key has no series."""
        entry = self._entries.get(key)
        return entry.delay if entry else 0.0

    def remaining(self, key: Hashable, now: Seconds, since: Seconds | None = None) -> Seconds:
        """Seconds left to wait, counted from `since` (default: the last `next`); 0 if an attempt may be made now."""
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        start = entry.updated if since is None else since
        if self._stale(entry, start):
            return 0.0
        return max(0.0, entry.delay - (now - start))

    def reset(self, key: Hashable) -> None:
        """Forget the key: the next failure starts from the initial delay."""
        self._entries.pop(key, None)

    def known(self) -> list[Hashable]:
        """The keys that have a series."""
        return list(self._entries)

    def gc(self, now: Seconds) -> None:
        """Drop stale series: their next delay would be the initial one anyway."""
        for key in [key for key, entry in self._entries.items() if self._stale(entry, now)]:
            del self._entries[key]

    def _stale(self, entry: _Entry, event: Seconds) -> bool:
        return event - entry.updated > self._reset_after


def jittered(delay: Seconds, jitter: float, rand: Callable[[], float]) -> Seconds:
    """The delay plus a random share of it, up to `jitter` (0.5 = up to half as long again)."""
    return delay * (1.0 + rand() * jitter) if jitter > 0 else delay
