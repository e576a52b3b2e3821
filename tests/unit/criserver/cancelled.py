"""Cancels a call at points that are spread over its duration."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

POINTS = 12


async def steps_of(call: Awaitable[object]) -> int:
    """The number of rounds of the event loop in which a call runs."""
    task, rounds = asyncio.ensure_future(call), 0
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    await task
    return rounds


async def cancelled_after(rounds: int, call: Awaitable[object]) -> bool:
    """Cancel a call after so many rounds of the event loop, and wait for its end; whether it was cancelled."""
    task = asyncio.ensure_future(call)
    for _ in range(rounds):
        if task.done():
            break
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return task.cancelled()


async def cancelled_at_each_point(
    prepare: Callable[[], Awaitable[Callable[[], Awaitable[object]]]], check: Callable[[], Awaitable[None]]
) -> int:
    """Prepare a call, cancel it at a later point each time, and check what it left; how often it was cancelled."""
    total = await steps_of((await prepare())())
    await check()
    count = 0
    for point in range(POINTS):
        count += await cancelled_after(total * point // POINTS, (await prepare())())
        await check()
    return count
