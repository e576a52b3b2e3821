"""Clean-up under cancellation."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import pytest

from pykubelet.base.concurrency.answer import Answer, answer_of
from pykubelet.base.concurrency.shield import shielded
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
async def test_waiting_for_the_end_of_a_future_outlasts_a_cancellation(
    work: Callable[[asyncio.Event], Coroutine[object, object, int]],
) -> None:
    go = asyncio.Event()
    future = asyncio.ensure_future(work(go))
    answer: Answer[int] = answer_of(future, to_end=True)
    task = await cancelled_while_it_waits(answer, go)
    assert task.cancelled()
    assert future.done()


async def test_cancelled_wait_for_a_future_leaves_it_alone() -> None:
    go = asyncio.Event()
    future = asyncio.ensure_future(ends_at(go))

    async def wait() -> int:
        return await answer_of(future)

    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait({tasks[1]})
    go.set()
    assert await future == 5
    assert await tasks[0] == await tasks[2] == await answer_of(future) == 5
    assert tasks[1].cancelled()


async def test_errors_and_cancellation_of_a_future_reach_its_waiter() -> None:
    go = asyncio.Event()
    future = asyncio.ensure_future(fails_at(go))
    asyncio.get_running_loop().call_soon(go.set)
    for _ in range(2):
        with pytest.raises(Transient):
            await answer_of(future)
    future = asyncio.ensure_future(ends_at(asyncio.Event()))
    asyncio.get_running_loop().call_soon(future.cancel)
    with pytest.raises(asyncio.CancelledError):
        await answer_of(future)


async def test_the_waiting_task_goes_on_in_the_iteration_after_the_end() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await answer_of(future, to_end=True)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    future.set_result(None)
    await asyncio.sleep(0)
    assert task.done()
