"""Protection of clean-up work from cancellation: the work ends first, then the cancellation is raised."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the work to its end in its own task; a cancellation of the caller is raised only after that.

    An error of the work is raised as it is.
    """
    task = asyncio.ensure_future(work())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()


async def wait_shielded(future: "asyncio.Future[Any]") -> None:
    """Wait until a future is done, with a result or an error; a cancellation is raised only after that."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not future.cancelled():
            future.exception()  # marks it as retrieved, so that asyncio does not report it as lost
        raise cancelled
