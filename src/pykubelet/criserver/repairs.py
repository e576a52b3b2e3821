"""Repairs that a starting server makes to single containers, sandboxes and leftovers, independently of each other.

A repair that fails or hangs (an immutable file, a failing disk, a process that hangs in the kernel) delays neither the
others nor the start: its object is quarantined, shown in the server's status, and retried with growing delays for as
long as the server runs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_CONCURRENT = 8
_SLOT: Seconds = 2.0
"""A repair that runs longer no longer counts towards the concurrency limit."""
_LOOK: Seconds = 0.5

Work = Callable[[], Awaitable[None]]
"""One attempt of a repair; idempotent."""


class UnfinishedRepair(Struct, frozen=True):
    """A quarantined object: its repair has not succeeded yet."""

    kind: str
    id: str
    error: str
    """The last failure; empty while the first attempt is running."""
    since: Seconds
    """Unix time."""


class _Item:
    def __init__(self, *, kind: str, identity: str, work: Work, since: Seconds) -> None:
        self.kind = kind
        self.id = identity
        self.work = work
        self.since = since
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.id}"


class Repairs:
    """The repairs of one server. ``run`` retries those that have failed."""

    def __init__(self, tasks: asyncio.TaskGroup, clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._guard = Guard("start-up.repairs", clock.monotonic)
        self._items: dict[str, _Item] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._failed = asyncio.Event()

    def add(self, kind: str, identity: str, work: Work) -> None:
        """Start a repair. One that is added for the same object replaces the first, which is allowed to finish."""
        item = _Item(kind=kind, identity=identity, work=work, since=self._clock.now())
        known = self._items.get(item.name)
        if known is not None and known.task is not None:
            known.work = work
            return
        self._items[item.name] = item
        self._begin(item)

    async def wait_for_first_attempts(self, within: Seconds) -> None:
        """Return when each repair was attempted once, or after ``within`` seconds; they continue in the background."""
        running = [item.task for item in self._items.values() if item.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=within)
            if late:
                _log.warning("repairs still running: continuing in the background", extra={"count": len(late)})

    def unfinished(self) -> list[UnfinishedRepair]:
        """List the repairs that have failed or are still running, oldest first."""
        failing = self._guard.failing
        return [
            UnfinishedRepair(item.kind, item.id, failing.get(item.name, ""), item.since)
            for item in self._items.values()
        ]

    async def run(self) -> None:
        """Retry failed repairs whose delay has expired; runs until cancelled."""
        while True:
            await self._failed.wait()
            for item in self._guard.due(list(self._items.values()), lambda item: item.name):
                if item.task is None:
                    self._begin(item)
            if not self._items:
                self._failed.clear()
            await self._clock.sleep(_LOOK)

    def _begin(self, item: _Item) -> None:
        # A context of its own: a repair outlives the call that begins it, and is no part of its trace.
        name = f"repair-{item.kind}-{item.id[:13]}"
        item.task = self._tasks.create_task(self._try(item), name=name, context=Context())

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
