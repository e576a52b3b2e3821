"""A thread that runs the calls of one owner, one after the other."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from pykubelet.base.concurrency.answer import Answer

_T = TypeVar("_T")


class OwnThread:
    """The thread. It runs from the first call until ``end``, and keeps no process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self, function: Callable[[], _T]) -> Answer[_T]:
        """Run the function in the thread after all earlier ones; await the result or the error.

        A cancellation is raised when the function has ended. RuntimeError: no thread can be started.
        """
        answer: Answer[_T] = Answer(to_end=True)
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._works.put(partial(_run, function, answer, asyncio.get_running_loop()))
        return answer

    def end(self) -> None:
        """End the thread after the calls that were begun, and wait for it. Blocks."""
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (work := self._works.get()) is not None:
            work()
            del work  # it has the results


def _run(function: Callable[[], _T], answer: Answer[_T], loop: asyncio.AbstractEventLoop) -> None:
    try:
        outcome = partial(answer.give, function())
    except BaseException as error:  # any error is raised again in the caller
        outcome = partial(answer.fail, error)
    with suppress(RuntimeError):  # the loop is closed: no caller waits any more
        loop.call_soon_threadsafe(outcome)
