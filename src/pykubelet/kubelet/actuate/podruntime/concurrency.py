"""Helpers to run coroutines concurrently, and with a time limit."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.tasks import cancel_all, wait_all, yielding_to_loop
from pykubelet.base.units import Seconds

T = TypeVar("T")
U = TypeVar("U")


async def concurrently(work: Iterable[Coroutine[Any, Any, T]], name: str) -> list[T]:
    """Run coroutines concurrently; return their results in order. The first error cancels the others and is raised.

    They begin in several iterations of the event loop, so that the thousands of a large pod do not block other tasks.
    """
    works = list(work)
    if len(works) == 1:  # most pods have one container: it needs no task of its own
        return [await works[0]]
    tasks: list[asyncio.Task[T]] = []
    coroutines = iter(works)
    try:
        async for one in yielding_to_loop(coroutines):
            tasks.append(asyncio.create_task(one, name=name))
    except asyncio.CancelledError:
        for one in coroutines:
            one.close()
        await cancel_all(tasks)
        raise
    await wait_all(tasks)
    return [task.result() for task in tasks]


async def both(one: Coroutine[Any, Any, T], two: Coroutine[Any, Any, U], name: str) -> tuple[T, U]:
    """Run two coroutines of different result types concurrently; errors as in :func:`concurrently`."""
    first, second = asyncio.create_task(one, name=name), asyncio.create_task(two, name=name)
    await wait_all((first, second))
    return first.result(), second.result()


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine concurrently with the body of the block; it is cancelled at the end of the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await wait_all((task,))


async def within(clock: Clock, limit: Seconds, work: Coroutine[Any, Any, None], name: str) -> bool:
    """Run a coroutine for at most ``limit`` seconds of ``clock``; return False if it had to be cancelled."""
    worker = asyncio.create_task(work, name=name)
    alarm = asyncio.create_task(clock.sleep(limit), name=f"{name}-limit")
    in_time = False
    try:
        await asyncio.wait((worker, alarm), return_when=asyncio.FIRST_COMPLETED)
        in_time = worker.done()
    finally:
        worker.cancel()
        alarm.cancel()
        await wait_all((worker, alarm))
    return in_time
