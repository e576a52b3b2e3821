"""Clean-up under cancellation."""

import asyncio

import pytest

from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Transient


async def test_work_ends_before_the_cancellation_is_passed_on() -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    task = asyncio.ensure_future(shielded(work))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_results_and_errors_pass_through() -> None:
    async def fine() -> int:
        return 5

    async def bad() -> int:
        raise Transient("no")

    assert await shielded(fine) == 5
    with pytest.raises(Transient):
        await shielded(bad)
