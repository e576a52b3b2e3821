"""Protection of clean-up work from cancellation: the work ends first, then the cancellation is raised."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pykubelet.base.concurrency.answer import answer_of

_T = TypeVar("_T")


async def shielded(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run the work to its end in its own task; a cancellation of the caller is raised only after that.

    An error of the work is raised as it is.
    """
    task = asyncio.ensure_future(work())
    try:
        return await answer_of(task, to_end=True)
    except asyncio.CancelledError:
        if not task.cancelled() and task.exception() is None:
            raise
        return task.result()
