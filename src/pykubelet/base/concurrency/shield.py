"""Protection of clean-up work from cancellation: the work ends first, then the cancellation is raised."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def shielded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the work to its end in its own task; a cancellation of the caller is raised only after that.

    An error of the work is raised as it is.
    """
    task = asyncio.ensure_future(work())
    try:
        await _End(task)
    except asyncio.CancelledError:
        if not task.cancelled() and task.exception() is None:
            raise
    return task.result()


async def wait_shielded(future: "asyncio.Future[Any]") -> None:
    """Wait until a future is done, with a result or an error; a cancellation is raised only after that."""
    try:
        await _End(future)
    except asyncio.CancelledError:
        if not future.cancelled():
            future.exception()  # marks it as retrieved, so that asyncio does not report it as lost
        raise


class _End(Generic[T]):
    """The end of a future, to be awaited by a task: has no result, and a cancellation of the task waits for it.

    It follows asyncio's protocol of futures (``asyncio.isfuture``). ``asyncio.wait`` for a single future takes two
    more iterations of the event loop, and the runtime server waits in this way some thirty times for a pod.
    """

    def __init__(self, future: "asyncio.Future[T]") -> None:
        self._future = future
        self._asyncio_future_blocking = False

    def __await__(self) -> Generator[Any, None, None]:
        if not self._future.done():
            self._asyncio_future_blocking = True
            yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future.get_loop()

    def add_done_callback(self, callback: Callable[["_End[T]"], object], *, context: Context | None = None) -> None:
        self._future.add_done_callback(lambda _: callback(self), context=context)

    def cancel(self, msg: str | None = None) -> bool:
        """Refuse: the task that is cancelled gets its CancelledError when the future is done."""
        return False

    def result(self) -> None:
        """No result and no error: the caller asks the future."""
