"""A future for one task, resolved by a callback of the event loop; the task runs again in the same iteration.

A task that awaits an ``asyncio.Future`` runs again in the iteration of the event loop after the one in which the future
got its result. Here it runs in the same one. The runtime server waits in this way some fifty times for a pod: for
threads, for protected work and for the calls that a client's request has begun.
"""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Answer(Generic[_T]):
    """A result or an error that one task awaits, at most once. It follows asyncio's protocol of futures.

    ``give`` and ``fail`` are called by callbacks of the event loop: the waiting task runs within the call. If a task
    calls them, or a callback in the very context of the waiting task, that runs in the next iteration.
    """

    def __init__(self, *, to_end: bool = False) -> None:
        """``to_end``: a cancellation of the task that waits is raised only when there is an answer."""
        self._loop = asyncio.get_running_loop()
        self._to_end = to_end
        self._done = False
        self._value: _T | None = None
        self._error: BaseException | None = None
        self._waiter: tuple[Callable[[Answer[_T]], object], Context | None] | None = None
        self._asyncio_future_blocking = False

    def __await__(self) -> Generator[Any, None, _T]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def done(self) -> bool:
        """Whether there is an answer, or the wait was cancelled."""
        return self._done

    def give(self, value: _T) -> None:
        """Give the result. Without effect after a cancellation."""
        self._end(value, None)

    def fail(self, error: BaseException) -> None:
        """Raise this error in the task that waits. Without effect after a cancellation."""
        self._end(None, error)

    def _end(self, value: _T | None, error: BaseException | None) -> None:
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        if self._waiter is not None:
            wake, context = self._waiter
            try:
                if context is None:
                    wake(self)
                else:
                    context.run(wake, self)
            except RuntimeError:
                # Another task, or the same context, is being executed: the waiting task would never hear of it.
                self._loop.call_soon(wake, self, context=context)

    # The rest is asyncio's protocol of futures; a task calls these.

    def result(self) -> _T:
        """The result; raises the error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: "Callable[[Answer[_T]], object]", *, context: Context | None = None) -> None:
        self._waiter = (callback, context)

    def cancel(self, msg: str | None = None) -> bool:
        """End the wait, if it may be ended. The task itself is running now, so that it is woken later."""
        if self._done or self._to_end:
            return False
        self._done, self._error = True, asyncio.CancelledError(msg) if msg else asyncio.CancelledError()
        if self._waiter is not None:
            wake, context = self._waiter
            self._loop.call_soon(wake, self, context=context)
        return True


def answer_of(future: "asyncio.Future[_T]", *, to_end: bool = False) -> Answer[_T]:
    """The result or the error of a future or task, which goes on when the wait is cancelled. ``to_end`` as above."""
    answer: Answer[_T] = Answer(to_end=to_end)

    def end(ended: "asyncio.Future[_T]") -> None:
        if ended.cancelled():
            answer.fail(asyncio.CancelledError())
        elif (error := ended.exception()) is not None:
            answer.fail(error)
        else:
            answer.give(ended.result())

    if future.done():
        end(future)
    else:
        future.add_done_callback(end)
    return answer
