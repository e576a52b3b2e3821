"""A clock that moves only when the test says so."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from pykubelet.base.units import Seconds
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import awaits_blocking_calls

_IDLE_ROUNDS = 3
_MAX_ROUNDS = 10_000
_THREAD_SECONDS = 0.0005
_LONGEST: Seconds = 60.0


@dataclass(order=True, slots=True)
class _Sleeper:
    deadline: Seconds
    order: int
    waiter: "asyncio.Future[None]" = field(compare=False)


class VirtualClock:
    """A `base.clock.Clock` under the test's control.

    `start` is the wall time in Unix seconds; the monotonic clock starts at 1000. Note that
    `asyncio.timeout` follows the event loop's own clock, not this one.
    """

    def __init__(self, start: Seconds = 1_700_000_000.0) -> None:
        self._wall_offset = start - 1000.0
        self._monotonic = 1000.0
        self._sleepers: list[_Sleeper] = []
        self._order = itertools.count()

    def now(self) -> Seconds:
        return self._monotonic + self._wall_offset

    def monotonic(self) -> Seconds:
        return self._monotonic

    @property
    def sleepers(self) -> int:
        """Number of tasks that are asleep on this clock, and of calls that are due later."""
        return sum(not sleeper.waiter.done() for sleeper in self._sleepers)

    async def sleep(self, seconds: Seconds) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, _Sleeper(self._monotonic + seconds, next(self._order), waiter))
        await waiter

    def call_later(self, seconds: Seconds, function: Callable[[], object]) -> "asyncio.Future[None]":
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due.add_done_callback(lambda due: None if due.cancelled() else function())
        if seconds > 0:
            heapq.heappush(self._sleepers, _Sleeper(self._monotonic + seconds, next(self._order), due))
        else:
            due.set_result(None)
        return due

    def jump_wall(self, seconds: Seconds) -> None:
        """Step only the wall clock, as NTP or an operator does; no sleeping task wakes up."""
        self._wall_offset += seconds

    async def advance(self, seconds: Seconds) -> None:
        """Let time pass: wake sleepers by deadline, and after each let the loop run until it is idle.

        A task that was woken may sleep again; it is woken again within the same call if its new deadline has passed.
        """
        target = self._monotonic + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0].deadline <= target:
            sleeper = heapq.heappop(self._sleepers)
            if sleeper.waiter.done():
                continue
            self._monotonic = max(self._monotonic, sleeper.deadline)
            sleeper.waiter.set_result(None)
            await self.settle()
        self._monotonic = max(self._monotonic, target)
        await self.settle()

    async def settle(self) -> None:
        """Run the loop until no callback is ready and no blocking call runs, except those that hang.

        It does not wait for other threads and subprocesses.
        """
        loop = asyncio.get_running_loop()
        ready: object = getattr(loop, "_ready", None)
        end = loop.time() + _LONGEST * PATIENCE
        busy = idle = 0
        while busy < _MAX_ROUNDS and loop.time() < end:
            await asyncio.sleep(0)
            # CPython keeps runnable callbacks in `_ready`; if it is empty now, no other callback is ready.
            if ready:
                busy, idle = busy + 1, 0
                continue
            idle += 1
            if idle < _IDLE_ROUNDS:
                continue
            if not awaits_blocking_calls():
                return
            await asyncio.sleep(_THREAD_SECONDS)
            idle = 0
        raise RuntimeError(f"the event loop is still busy after {busy} rounds; a task is spinning")
