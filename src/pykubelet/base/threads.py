"""Blocking work that must not be left half-way by somebody who stops waiting for it."""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def to_its_end(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run in a thread, as ``asyncio.to_thread``; a cancellation is passed on only when the function has ended.

    So what is done next about the same folder (removing it, say) never meets a thread that still works there.
    """
    return await _ended(lambda: function(*args, **kwargs), lambda: None)


async def stoppable(function: Callable[[Callable[[], bool]], _T]) -> _T:
    """As ``to_its_end``, for long work that asks now and then, by the function it is given, whether to stop early."""
    stop = threading.Event()
    return await _ended(lambda: function(stop.is_set), stop.set)


async def _ended(function: Callable[[], _T], on_cancel: Callable[[], None]) -> _T:
    future = asyncio.get_running_loop().run_in_executor(None, function)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    if cancelled is not None:
        future.exception()  # seen, so that nobody complains of it
        raise cancelled
    return future.result()
