"""Usage of writable layers, counted so that a container with millions of files delays only its own result.

The container determines how long counting its files takes. So each count proceeds in slices, and only while a caller
waits. The caller waits for a bounded time and then gets the last or the unfinished count. The longer a count took, the
longer its result is kept.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.filesystems.fsusage import TreeUsage, start_walk, usage_of_walk
from pykubelet.linux.filesystems.treewalk import TreeWalk

_WAIT: Final[Seconds] = 1.0
_SLICE: Final[Seconds] = 0.1
_RESPONDING: Final[Seconds] = 2.0
"""Deadline of a slice, which is missed only if the disk is not responding."""
_LONGEST: Final[Seconds] = 120.0
"""Time limit of counting one tree; the result then is what was counted so far."""
_SHARE: Final = 20
"""A result is kept for this multiple of the time that the count took."""


class _Count:
    """The counts of one tree: the last one, and the current one."""

    def __init__(self) -> None:
        self.last: TreeUsage | None = None
        self.until: Seconds = 0.0
        self.lock = asyncio.Lock()
        self.walk: TreeWalk | None = None
        self.steps: Generator[None, None, None] | None = None
        self.took: Seconds = 0.0
        self.gone = False

    def best(self) -> TreeUsage | None:
        """The larger of the last and the current count; None if there is neither."""
        found = [self.last] if self.last is not None else []
        if self.walk is not None:
            found.append(usage_of_walk(self.walk, complete=False))
        return max(found, key=lambda each: each.bytes, default=None)

    def slice(self, path: str) -> bool:
        """Count for one slice of time; returns whether the count has ended. NotFound: there is no tree. Blocking."""
        begun = time.perf_counter()
        if self.walk is None or self.steps is None:
            self.walk = start_walk(path)
            self.steps = self.walk.steps()
        ended = True
        for _ in self.steps:
            if time.perf_counter() - begun > _SLICE:
                ended = False
                break
        self.took += time.perf_counter() - begun
        if self.gone:
            self.steps.close()
        return ended or self.took > _LONGEST

    def close(self) -> None:
        """Close the walk: at once, or when the thread that runs it has ended its slice."""
        self.gone = True
        if self.steps is not None:
            with suppress(ValueError):  # the generator runs in a thread, which checks ``gone`` and closes it
                self.steps.close()


class UsageCounter:
    """Counts the usage of directory trees, by name (a container's id)."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}

    def forget(self, name: str) -> None:
        """Drop the counts of a tree that is being removed."""
        count = self._counts.pop(name, None)
        if count is not None:
            count.close()

    async def of(self, name: str, path: str) -> TreeUsage | None:
        """The usage of a tree as far as it is known after about a second; None if nothing is known.

        Raises NotFound if the tree does not exist.
        """
        count = self._counts.setdefault(name, _Count())
        try:
            with suppress(TimeoutError, Transient):
                async with asyncio.timeout(_WAIT), count.lock:
                    await _go_on(name, path, count)
        except NotFound:
            self.forget(name)
            raise
        return count.best()


async def _go_on(name: str, path: str, count: _Count) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() >= count.until:
        ended = await blocking.call_to_end(f"usage/{name}", count.slice, path, deadline=_RESPONDING, at_once=1)
        if ended and count.walk is not None:
            count.last = usage_of_walk(count.walk, complete=count.took <= _LONGEST)
            count.until = loop.time() + count.took * _SHARE
            count.walk, count.steps, count.took = None, None, 0.0
