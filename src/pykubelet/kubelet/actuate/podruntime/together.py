"""Small tools for doing things side by side and against the clock."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds

T = TypeVar("T")
U = TypeVar("U")


async def together(work: Iterable[Coroutine[Any, Any, T]], name: str) -> list[T]:
    """The results of all, in order. The first error cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one, name=name) for one in work]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def both(one: Coroutine[Any, Any, T], two: Coroutine[Any, Any, U], name: str) -> tuple[T, U]:
    """:func:`together` for two of different kinds."""
    try:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(one, name=name)
            second = group.create_task(two, name=name)
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return first.result(), second.result()


async def within(clock: Clock, limit: Seconds, work: Coroutine[Any, Any, None], name: str) -> bool:
    """Do the work, but no longer than ``limit`` seconds of that clock; False if it had to be cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            worker = group.create_task(work, name=name)
            alarm = group.create_task(clock.sleep(limit), name=f"{name}-limit")
            await asyncio.wait((worker, alarm), return_when=asyncio.FIRST_COMPLETED)
            in_time = worker.done()
            worker.cancel()
            alarm.cancel()
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return in_time


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
