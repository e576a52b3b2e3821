"""An event loop in which one seed decides every interleaving, so that a failing interleaving can be reproduced.

Time is virtual; threads are callbacks of the loop, each after a random delay. A loop without pending callbacks is a
deadlock and raises an error.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pykubelet.base.concurrency.answer import Answer
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_WALL = 1_700_000_000.0


class MortalProcess(Protocol):
    """A process in the simulation, which can be killed."""

    alive: bool


class Dead(BaseException):
    """Raised in the code of a dead process at every access to the simulated machine."""


RUNS_IN: ContextVar[MortalProcess | None] = ContextVar("RUNS_IN", default=None)
"""The process that the current task belongs to."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with one thread and virtual time."""

    def __init__(self, chance: random.Random) -> None:
        self._virtual: Seconds = 1000.0
        self.chance = chance
        self._queues: dict[object, deque[Callable[[], None]]] = {}
        super().__init__(_Selector(self))

    def time(self) -> Seconds:
        return self._virtual

    def advance(self, seconds: Seconds) -> None:
        """Advance the time to the next timer if no callback is ready."""
        self._virtual += seconds

    def delay(self) -> Seconds:
        """A random duration: mostly zero, sometimes long enough for everything else to happen."""
        return self.chance.choice((0.0, 0.0, 0.0, 0.0001, 0.001, 0.01, 0.1))

    def in_thread_of(self, owner: object, function: Callable[[], _T]) -> Answer[_T]:
        """Run a blocking call as in the only thread of its owner; a cancellation waits for its end."""
        answer: Answer[_T] = Answer(to_end=True)

        def work() -> None:
            try:
                result = function()
            except BaseException as error:
                answer.fail(error)
            else:
                answer.give(result)

        self._enqueue(owner, work, answer)
        return answer

    def later(self, work: Callable[[], None], *, of_component: bool = True) -> None:
        """Run a call as in another thread: after a delay, unless its process is dead by then."""
        self.call_later(self.delay(), _unless_dead(work, None))

    def _enqueue(self, owner: object, work: Callable[[], None], answer: Answer[Any]) -> None:
        queue = self._queues.setdefault(owner, deque())
        queue.append(_unless_dead(work, answer))

        def turn() -> None:
            queue[0]()
            queue.popleft()
            if queue:
                self.call_later(self.delay(), turn)

        if len(queue) == 1:
            self.call_later(self.delay(), turn)


def _unless_dead(work: Callable[[], None], answer: Answer[Any] | None) -> Callable[[], None]:
    owner = RUNS_IN.get()

    def turn() -> None:
        if owner is None or owner.alive:
            work()
        elif answer is not None:
            answer.fail(Dead())

    return turn


class _Selector(selectors.SelectSelector):
    """A selector that advances the virtual time instead of waiting."""

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
    skew: Seconds = 0.0

    def now(self) -> Seconds:
        return _WALL + self.loop.time() + self.skew

    def monotonic(self) -> Seconds:
        return self.loop.time()

    async def sleep(self, seconds: Seconds) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: Seconds, function: Callable[[], object]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, function)
