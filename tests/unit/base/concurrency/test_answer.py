"""An answer that a task waits for, and a callback gives: the task runs within the callback."""

import asyncio
from contextvars import ContextVar, copy_context

import pytest

from pykubelet.base.concurrency.answer import Answer

_where: ContextVar[str] = ContextVar("where")


async def test_task_runs_within_the_callback_that_gives_the_answer() -> None:
    answer: Answer[int] = Answer()
    order: list[object] = []

    async def wait() -> None:
        order.append(await answer)

    def give() -> None:
        answer.give(7)
        order.append("given")

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(give)
    await task
    assert order == [7, "given"]


async def test_task_keeps_its_context_variables() -> None:
    answer: Answer[None] = Answer()

    async def wait() -> str:
        _where.set("task")
        await answer
        return _where.get()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    _where.set("callback")
    asyncio.get_running_loop().call_soon(answer.give, None)
    assert await task == "task"


async def test_answer_before_the_wait_is_there_at_once() -> None:
    answer: Answer[int] = Answer()
    assert not answer.done()
    answer.give(7)
    answer.give(8)
    assert answer.done()
    assert await answer == 7


async def test_error_is_raised_in_the_task() -> None:
    answer: Answer[int] = Answer()

    async def wait() -> int:
        return await answer

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(answer.fail, OSError("no such disk"))
    with pytest.raises(OSError, match="no such disk"):
        await task


async def test_cancelled_wait_ends_at_once_and_a_later_answer_is_dropped() -> None:
    answer: Answer[int] = Answer()

    async def wait() -> int:
        return await answer

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    answer.give(7)
    assert answer.done()


async def test_timeout_ends_the_wait() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Answer[None]()


@pytest.mark.parametrize("error", [None, OSError("no such disk")])
async def test_wait_to_the_end_raises_a_cancellation_after_the_answer(error: OSError | None) -> None:
    answer: Answer[None] = Answer(to_end=True)
    seen: list[str] = []

    async def wait() -> None:
        try:
            await answer
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert seen == []
    loop = asyncio.get_running_loop()
    loop.call_soon(answer.give, None) if error is None else loop.call_soon(answer.fail, error)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


@pytest.mark.parametrize("error", [None, OSError("no")])
async def test_task_hears_of_an_answer_that_another_task_gives(error: OSError | None) -> None:
    """A task cannot be executed within another one; it would wait for ever, even if it was cancelled."""
    answer: Answer[int] = Answer()

    async def wait() -> int | OSError:
        try:
            return await answer
        except OSError as caught:
            return caught

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    if error is None:
        answer.give(7)
    else:
        answer.fail(error)
    await asyncio.wait({task}, timeout=5)
    assert task.done() and task.result() == (error or 7)


async def test_task_hears_of_an_answer_that_comes_in_its_own_context() -> None:
    answer: Answer[int] = Answer()
    context = copy_context()

    async def wait() -> int:
        return await answer

    task = asyncio.get_running_loop().create_task(wait(), context=context)
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(answer.give, 7, context=context)
    await asyncio.wait({task}, timeout=5)
    assert task.done() and task.result() == 7
