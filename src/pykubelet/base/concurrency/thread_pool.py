"""The threads in which blocking calls run.

They are daemon threads, so that the process can exit while a call hangs, and are reused once their call has returned.
A part of them is reserved for the agent's components, so that hanging calls of pods cannot use up all.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_MOST: Final = 1024
"""Limit of threads; only hanging calls can reach it."""
_RESERVED: Final = 128
"""Threads reserved for components."""
_BLAME: Final = "file systems or devices are not responding"
Report = Callable[[], None]
Work = Callable[[], Report]
"""What a thread runs. It returns what to run when the thread may be given other work: the report of its result."""
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
