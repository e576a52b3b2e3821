"""The threads in which blocking calls run.

They are daemon threads, so that the process can exit while a call hangs, and are reused once their call has returned.
A part of them is reserved for the agent's components, so that hanging calls of pods cannot use up all. Slots limit how
many of them work at a time.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_MOST: Final = 1024
"""Limit of threads; only hanging calls can reach it."""
_RESERVED: Final = 128
"""Threads reserved for components."""
_BLAME: Final = "file systems or devices are not responding"
Report = Callable[[], None]
Work = Callable[[], Report]
"""A function for a thread. It returns the report of its result, to run when the thread may be given other work."""
_IDLE: Final[Seconds] = 10.0
"""Time after which an unused thread ends."""


class ThreadPool:
    """The threads of a process. The thread that became idle last is used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[_Thread] = deque()
        self._count = 0
        self._of_others = 0
        """Threads that run calls of owners other than components."""

    def run(self, work: Work, *, of_component: bool) -> None:
        """Start the work at once. Raises Transient if no more threads can be started."""
        if of_component:
            self._start(work)
            return
        with self._lock:
            if self._of_others >= _MOST - _RESERVED:
                raise Transient(f"{self._of_others} blocking calls are running; {_BLAME}")
            self._of_others += 1
        try:
            self._start(partial(self._for_others, work))
        except BaseException:
            self._ended_for_others()
            raise

    def _for_others(self, work: Work) -> Report:
        try:
            return work()
        finally:
            self._ended_for_others()

    def _ended_for_others(self) -> None:
        with self._lock:
            self._of_others -= 1

    def _start(self, work: Work) -> None:
        with self._lock:
            thread = self._idle.pop() if self._idle else None
            if thread is None:
                if self._count >= _MOST:
                    raise Transient(f"{self._count} blocking calls are running; {_BLAME}")
                self._count += 1
        if thread is None:
            thread = _Thread(self._offer, self._retire)
            try:
                thread.start()
            except RuntimeError as error:
                with self._lock:
                    self._count -= 1
                raise Transient(f"cannot start a thread: {error}") from error
        thread.give(work)

    def _offer(self, thread: "_Thread") -> None:
        with self._lock:
            self._idle.append(thread)

    def _retire(self, thread: "_Thread") -> bool:
        """Whether the thread may end: it must not if work has been given to it meanwhile."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            self._count -= 1
            return True


class _Thread(threading.Thread):
    """A pool thread: runs one piece of work after another until it has been idle for ``_IDLE`` seconds."""

    def __init__(self, offer: Callable[["_Thread"], None], retire: Callable[["_Thread"], bool]) -> None:
        super().__init__(name="blocking", daemon=True)
        self._offer = offer
        self._retire = retire
        self._given: SimpleQueue[Work] = SimpleQueue()

    def give(self, work: Work) -> None:
        self._given.put(work)

    def run(self) -> None:
        while True:
            try:
                work = self._given.get(timeout=_IDLE)
            except Empty:
                if self._retire(self):
                    return
                continue
            report = work()
            del work
            self._offer(self)  # first, so that the hearer of the report finds this thread idle
            report()
            del report


class ThreadCall(Protocol):
    """A call that runs in a thread. ``of_component``: only a thread for components may run it."""

    of_component: bool
    began: Seconds

    def begin(self) -> None:
        """Note in ``began`` that it begins now."""


_T = TypeVar("_T", bound=ThreadCall)


class ThreadSlots(Generic[_T]):
    """Slots for what runs in threads; the event loop and all of these threads may use it.

    A thread that has ended its work goes on with the first that waits. If the event loop passed slots on, the thread
    would sleep until then, and a busy machine runs all other programs before a thread that wakes up.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self.free = count
        self._running: dict[_T, None] = {}
        """The work that has a slot, in the order of its begin."""
        self._waiting: deque[_T] = deque()

    def running(self) -> list[_T]:
        """Return the work that has a slot, in the order of its begin."""
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
