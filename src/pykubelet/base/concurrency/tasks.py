"""Waiting for several tasks without losing a cancellation, and work in pieces.

When a task of ``asyncio.TaskGroup`` fails at the moment in which its owner is cancelled, Python 3.11 and 3.12 raise the
error and drop the cancellation: an owner that handles the error continues, and the canceller waits for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_IN_A_ROW: Final = 16


async def wait_all(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Wait until all tasks have ended. The first error cancels the others and is raised once they have ended.

    A cancellation of the caller cancels all tasks and is raised once they have ended, whatever they raise.
    """
    if not tasks:
        return
    cancelled: asyncio.CancelledError | None = None
    first: BaseException | None = None
    pending: set[asyncio.Task[Any]] = set(tasks)
    while pending:
        ending = cancelled is not None or first is not None
        try:
            await asyncio.wait(pending, return_when=asyncio.ALL_COMPLETED if ending else asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError as error:
            cancelled = error
        errors = [_error(each) for each in tasks if each.done()]
        first = first or next((each for each in errors if each is not None), None)
        pending = {each for each in pending if not each.done()}
        if not ending:
            for each in pending:
                each.cancel()
    if cancelled is not None:
        raise cancelled
    if first is not None:
        raise first


async def cancel_all(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks and wait until they have ended, although the caller is cancelled; their errors are dropped."""
    for each in tasks:
        each.cancel()
    pending = set(tasks)
    while pending:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pending)
        pending = {each for each in pending if not each.done()}


async def yielding_to_loop(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Iterate, and yield to the event loop after each 16 items: a pod may have thousands of each."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _IN_A_ROW == 0:
            await asyncio.sleep(0)


def _error(task: "asyncio.Task[Any]") -> BaseException | None:
    return None if task.cancelled() else task.exception()
