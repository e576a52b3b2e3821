"""Data of pulls that a registry interrupted: it is kept for a while, for their next attempts."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.unpack.room import Reserve, Room

_KEPT: Final[Seconds] = 3600.0
_LOOK: Final[Seconds] = 10.0
"""Time between two looks at the free space of the disk."""
_MOST: Final = 256
"""Number of interrupted pulls whose blobs are kept; the oldest is dropped for one more."""
_MOST_BLOBS: Final = 4096
"""Number of their blobs; older pulls are dropped for those of a new one. No pull ends while all of them are removed."""


class InterruptedPulls:
    """The blobs of interrupted pulls. ``spare`` is the part of the disk of ``place`` that they must leave free."""

    def __init__(self, place: Path, *, spare: Reserve, clock: Clock) -> None:
        self._place = place
        self._spare = spare
        self._clock = clock
        self._news = Wakeup(clock)
        self._pulls: dict[str, tuple[Seconds, frozenset[str]]] = {}
        """By name: the time of the interruption, and the blobs requested until then; the oldest first."""

    def add(self, name: str, blobs: Iterable[str]) -> None:
        """Keep the blobs of a pull that was interrupted now, instead of those of its attempt before."""
        self._pulls.pop(name, None)
        new = frozenset(blobs)
        count = len(new) + sum(len(each) for _, each in self._pulls.values())
        while self._pulls and (len(self._pulls) >= _MOST or count > _MOST_BLOBS):
            _, dropped = self._pulls.pop(next(iter(self._pulls)))
            count -= len(dropped)
        self._pulls[name] = (self._clock.monotonic(), new)
        self._news.wake()

    def of_others(self, name: str) -> set[str]:
        """Return the blobs of all interrupted pulls but that one."""
        return {digest for other, (_, blobs) in self._pulls.items() if other != name for digest in blobs}

    def forget(self, name: str) -> None:
        """Forget a pull that has succeeded."""
        self._pulls.pop(name, None)

    def forget_all(self) -> None:
        """Forget all pulls: their space is needed."""
        self._pulls.clear()

    async def kept(self) -> set[str]:
        """Forget pulls that were interrupted more than an hour ago, or all if space is short; return the blobs of the
        others, whether they are whole, partial or not here yet."""
        limit = self._clock.monotonic() - _KEPT
        self._pulls = {name: pull for name, pull in self._pulls.items() if pull[0] > limit}
        if self._pulls:
            with suppress(Transient):  # the disk is not responding
                short = await blocking.call("images/space", self._is_short)
                self._pulls = {} if short else self._pulls
        return {digest for _, blobs in self._pulls.values() for digest in blobs}

    async def run(self, collect: Callable[[], Awaitable[None]]) -> None:
        """Have blobs collected that are no longer kept, until cancelled."""
        while True:
            self._news.clear()
            await self._news.sleep(_LOOK if self._pulls else None)
            await collect()

    def _is_short(self) -> bool:
        try:
            Room(str(self._place), self._spare).take(0)
        except OSError:
            return True
        return False
