"""Slots that limit how many things run at a time, given in the order in which they were asked for."""

import asyncio
import threading
from collections import deque
from typing import Generic, Protocol, TypeVar

from pykubelet.base.units import Seconds


class Slots:
    """Slots for tasks of an event loop. A free one costs a fraction of asyncio's Semaphore."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Take a slot as soon as there is one."""
        if self.free:
            self.free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.cancelled():
                self.give()  # it has got the slot, too late
            raise

    def give(self) -> None:
        """Give a slot back; the first that waits takes it."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1


class Threaded(Protocol):
    """What runs in a thread. ``of_component``: only a thread for components may run it."""

    of_component: bool
    began: Seconds

    def begin(self) -> None:
        """Note in ``began`` that it begins now."""


_T = TypeVar("_T", bound=Threaded)


class ThreadSlots(Generic[_T]):
    """Slots for what runs in threads; the event loop and all of these threads may use it.

    A thread that has ended its work goes on with the first that waits. If the event loop passed slots on, the thread
    would sleep until then, and a busy machine runs all other programs before a thread that wakes up.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self.free = count
        self._running: dict[_T, None] = {}
        """What has a slot, in the order of its begin."""
        self._waiting: deque[_T] = deque()

    def running(self) -> list[_T]:
        """What has a slot, in the order of its begin."""
        with self._lock:
            return list(self._running)

    def take_or_wait(self, work: _T) -> bool:
        """Begin, if there is a free slot; otherwise it waits for ``take_next`` or ``pass_on``, and this is False."""
        with self._lock:
            if self.free and not self._waiting:
                self._begin(work)
                return True
            self._waiting.append(work)
            return False

    def withdraw(self, work: _T) -> bool:
        """Wait no longer; False if it did not wait."""
        with self._lock:
            if work not in self._waiting:
                return False
            self._waiting.remove(work)
            return True

    def take_next(self) -> _T | None:
        """Begin the first that waits, if there is a free slot, and return it."""
        with self._lock:
            if not self.free or not self._waiting:
                return None
            return self._begin(self._waiting.popleft())

    def pass_on(self, ended: _T) -> _T | None:
        """Give the slot to the first that waits, and return it, if the same thread may run it; else give it back.

        None as well if the slot was given back before.
        """
        with self._lock:
            if self._give_back(ended) and self._waiting and self._waiting[0].of_component == ended.of_component:
                return self._begin(self._waiting.popleft())
            return None

    def give_back(self, work: _T) -> bool:
        """Give the slot back; False if it was given back or passed on before."""
        with self._lock:
            return self._give_back(work)

    def _begin(self, work: _T) -> _T:
        self.free -= 1
        self._running[work] = None
        work.begin()
        return work

    def _give_back(self, work: _T) -> bool:
        if work not in self._running:
            return False
        del self._running[work]
        self.free += 1
        return True
