"""Clean-up under cancellation."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pykubelet.base.concurrency.shield import shielded, wait_shielded
from pykubelet.base.errors import Transient


async def ends_at(go: asyncio.Event) -> int:
    await go.wait()
    return 5


async def fails_at(go: asyncio.Event) -> int:
    await go.wait()
    raise Transient("no")


async def cancelled_while_it_waits(waiting: Awaitable[object], go: asyncio.Event) -> "asyncio.Task[object]":
    """A task that awaits, was cancelled again and again, and has not ended before `go` was set."""

    async def wait() -> object:
        return await waiting

    task = asyncio.ensure_future(wait())
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    await asyncio.wait({task}, timeout=5)
    return task


async def test_work_ends_before_the_cancellation_is_passed_on() -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await go.wait()
        done.set()

    task = await cancelled_while_it_waits(shielded(work), go)
    assert task.cancelled()
    assert done.is_set()


async def test_work_of_a_caller_that_is_cancelled_before_it_waits_ends_first() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(0)
        done.set()

    async def caller() -> None:
        me = asyncio.current_task()
        assert me is not None
        me.cancel()
        await shielded(work)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.ensure_future(caller())
    assert done.is_set()


async def test_a_time_limit_has_its_effect_after_the_work() -> None:
    go = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, go.set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await shielded(lambda: ends_at(go))
    assert go.is_set()


async def test_results_and_errors_pass_through() -> None:
    go = asyncio.Event()
    go.set()
    assert await shielded(lambda: ends_at(go)) == 5
    with pytest.raises(Transient):
        await shielded(lambda: fails_at(go))


async def test_error_of_the_work_is_raised_instead_of_the_cancellation() -> None:
    go = asyncio.Event()
    task = await cancelled_while_it_waits(shielded(lambda: fails_at(go)), go)
    assert isinstance(task.exception(), Transient)


@pytest.mark.parametrize("work", [ends_at, fails_at])
async def test_waiting_for_a_future_outlasts_a_cancellation(work: Callable[[asyncio.Event], Awaitable[int]]) -> None:
    go = asyncio.Event()
    future = asyncio.ensure_future(work(go))
    task = await cancelled_while_it_waits(wait_shielded(future), go)
    assert task.cancelled()
    assert future.done()


async def test_waiting_for_a_future_that_fails_or_has_ended_raises_nothing() -> None:
    go = asyncio.Event()
    future = asyncio.ensure_future(fails_at(go))
    asyncio.get_running_loop().call_soon(go.set)
    await wait_shielded(future)
    await wait_shielded(future)
    assert isinstance(future.exception(), Transient)


async def test_waiting_for_a_future_that_is_cancelled_raises_nothing() -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await wait_shielded(future)
    assert future.cancelled()


async def test_the_waiting_task_goes_on_in_the_iteration_after_the_end() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    task = asyncio.ensure_future(wait_shielded(future))
    await asyncio.sleep(0)
    future.set_result(None)
    await asyncio.sleep(0)
    assert task.done()
