"""What a start has to do about single containers, sandboxes and leftovers, each by itself.

One that cannot be finished, undone or removed (an immutable file, a failing disk, a process that hangs in the kernel)
holds up neither the others nor the start: it is quarantined, shown in the server's status, and tried again with growing
delays for as long as the server runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykubelet.base.clock import Clock
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_AT_ONCE = 8
_SLOT: Seconds = 2.0
"""After which a repair that still runs no longer counts among those at once."""
_LOOK: Seconds = 0.5

Work = Callable[[], Awaitable[None]]
"""Can be repeated."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One thing that is not repaired yet."""

    kind: str
    id: str
    error: str
    """How it failed last; empty: its first try is still under way."""
    since: Seconds
    """Unix time."""


class _Item:
    def __init__(self, kind: str, identity: str, work: Work, since: Seconds) -> None:
        self.kind = kind
        self.id = identity
        self.work = work
        self.since = since
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.id}"


class Repairs:
    """All of them. ``run`` tries those that have failed again."""

    def __init__(self, tasks: asyncio.TaskGroup, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._guard = Guard("start-up.repairs", clock.monotonic)
        self._items: dict[str, _Item] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._failed = asyncio.Event()

    def add(self, kind: str, identity: str, work: Work) -> None:
        """Begin one. A second one about the same thing replaces the first when that has ended."""
        item = _Item(kind, identity, work, self._clock.now())
        known = self._items.get(item.name)
        if known is not None and known.task is not None:
            known.work = work
            return
        self._items[item.name] = item
        self._begin(item)

    async def wait_for_first_attempts(self, within: Seconds) -> None:
        """Return when each has been tried once, or so many seconds have passed; they go on in the background then."""
        running = [item.task for item in self._items.values() if item.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=within)
            if late:
                _log.warning("repairs go on in the background", extra={"count": len(late)})

    def unfinished(self) -> list[Unfinished]:
        """What is quarantined, or takes its time; the oldest first."""
        failing = self._guard.failing
        return [Unfinished(item.kind, item.id, failing.get(item.name, ""), item.since) for item in self._items.values()]

    async def run(self) -> None:
        """For ever: try those again whose delay is over."""
        while True:
            await self._failed.wait()
            for item in self._guard.due(list(self._items.values()), lambda item: item.name):
                if item.task is None:
                    self._begin(item)
            if not self._items:
                self._failed.clear()
            await self._clock.sleep(_LOOK)

    def _begin(self, item: _Item) -> None:
        item.task = self._tasks.create_task(self._try(item), name=f"repair-{item.kind}-{item.id[:13]}")

    async def _try(self, item: _Item) -> None:
        try:
            with self._guard.item(item.name):
                await self._work(item)
                del self._items[item.name]
        finally:
            item.task = None
            if item.name in self._items:
                self._failed.set()

    async def _work(self, item: _Item) -> None:
        async with self._slots:
            work = asyncio.ensure_future(item.work())
            try:
                await asyncio.wait({work}, timeout=_SLOT)
            except asyncio.CancelledError:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise
        await work
