"""An event loop in which everything that waits is decided by one seed: an interleaving that fails, fails again.

Time is virtual, threads are turns of the loop, each after a delay that chance chooses. A loop in which nothing is
left to happen is a deadlock, and says so.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from pykubelet.base.units import Seconds

_WALL = 1_700_000_000.0


class Mortal(Protocol):
    """A process in the simulation, which dies without any last words."""

    alive: bool


class Dead(BaseException):
    """What the rest of a dead process's code meets wherever it would touch the world."""


RUNS_IN: ContextVar[Mortal | None] = ContextVar("RUNS_IN", default=None)
"""The process that the current task belongs to."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """One thread, virtual time."""

    def __init__(self, chance: random.Random) -> None:
        self._virtual: Seconds = 1000.0
        self.chance = chance
        self._queues: dict[object, deque[Callable[[], None]]] = {}
        super().__init__(_Selector(self))

    def time(self) -> Seconds:
        return self._virtual

    def advance(self, seconds: Seconds) -> None:
        """Nothing is ready: the next timer is due."""
        self._virtual += seconds

    def delay(self) -> Seconds:
        """How long something takes: mostly nothing, at times long enough for everything else to happen."""
        return self.chance.choice((0.0, 0.0, 0.0, 0.0001, 0.001, 0.01, 0.1))

    def run_in_executor(  # type: ignore[override]  # generic in the base class
        self, executor: Executor | None, function: Callable[..., Any], *arguments: Any
    ) -> "asyncio.Future[Any]":
        """An executor of its own is one thread, the default one many."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = function(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        if executor is None:
            self.later(work, future)
        else:
            self._enqueue(executor, work, future)
        return future

    def later(
        self, work: Callable[[], None], future: "asyncio.Future[Any] | None" = None, *, of_component: bool = True
    ) -> None:
        """Do it in another thread: after a while, unless its process is dead then."""
        self.call_later(self.delay(), _unless_dead(work, future))

    def _enqueue(self, executor: Executor, work: Callable[[], None], future: "asyncio.Future[Any]") -> None:
        queue = self._queues.setdefault(executor, deque())
        queue.append(_unless_dead(work, future))

        def turn() -> None:
            queue[0]()
            queue.popleft()
            if queue:
                self.call_later(self.delay(), turn)

        if len(queue) == 1:
            self.call_later(self.delay(), turn)


def _unless_dead(work: Callable[[], None], future: "asyncio.Future[Any] | None") -> Callable[[], None]:
    owner = RUNS_IN.get()

    def turn() -> None:
        if owner is None or owner.alive:
            work()
        elif future is not None and not future.done():
            future.set_exception(Dead())

    return turn


class _Selector(selectors.SelectSelector):
    """Does not wait: time passes instead."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            waiting = "\n".join(f"{task.get_name()}: {task.get_stack()[-1]}" for task in asyncio.all_tasks(self._loop))
            raise AssertionError(f"deadlock: every task waits, and nothing will ever happen\n{waiting}")
        if timeout > 0:
            self._loop.advance(timeout)
        return super().select(0)


@dataclass
class SimulatedClock:
    """A ``base.clock.Clock`` on the loop's time; the wall clock can be set."""

    loop: SimulatedLoop
    ahead: Seconds = 0.0

    def now(self) -> Seconds:
        return _WALL + self.loop.time() + self.ahead

    def monotonic(self) -> Seconds:
        return self.loop.time()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(seconds)
