"""Tasks that end together: the first error as it is, and no cancellation lost."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from pykubelet.base.concurrency.tasks import cancel_all, wait_all, yielding_to_loop
from pykubelet.base.errors import Transient
from pykubelet.testing.wait import steps_of_another_task

Work = Callable[[], Coroutine[None, None, None]]


async def waits() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise Transient("away")


async def fails_when_cancelled() -> None:
    """As a call whose connection is closed under it."""
    try:
        await waits()
    except asyncio.CancelledError:
        raise Transient("connection closed") from None


async def run(*works: Work) -> None:
    await wait_all([asyncio.create_task(work()) for work in works])


async def soon() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_finished_without_errors_waits_for_all() -> None:
    done = []

    async def note() -> None:
        await soon()
        done.append(1)

    await run(note, note)
    await run()
    assert done == [1, 1]


@pytest.mark.parametrize("other", [waits, fails_when_cancelled])
async def test_finished_with_an_error_ends_the_others_and_raises_it(other: Work) -> None:
    with pytest.raises(Transient, match="away"):
        await run(other, fails)


async def test_finished_cancelled_while_a_task_fails_stays_cancelled() -> None:
    async def loop() -> None:
        while True:
            try:
                await run(fails_when_cancelled, waits)
            except Transient:
                continue

    task = asyncio.create_task(loop())
    await soon()
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()


async def test_finished_cancelled_while_an_error_ends_the_others_stays_cancelled() -> None:
    released = asyncio.Event()

    async def slow() -> None:
        try:
            await waits()
        finally:
            await released.wait()

    task = asyncio.create_task(run(slow, fails))
    await soon()
    task.cancel()
    await soon()
    assert not task.done(), "it waits for the tasks it has cancelled"
    released.set()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()


async def test_finished_in_a_timeout_that_expires_while_a_task_fails_times_out() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await run(fails_when_cancelled)


async def test_items_with_turns_leave_other_tasks_theirs() -> None:
    async with steps_of_another_task() as steps:
        assert [number async for number in yielding_to_loop(range(100))] == list(range(100))
    assert steps.count >= 6


async def test_cancelled_tasks_have_ended_although_their_canceller_is_cancelled_too() -> None:
    released = asyncio.Event()

    async def slow() -> None:
        try:
            await waits()
        finally:
            await released.wait()

    tasks = [asyncio.create_task(slow()), asyncio.create_task(fails_when_cancelled())]
    await soon()
    canceller = asyncio.create_task(cancel_all(tasks))
    await soon()
    canceller.cancel()
    await soon()
    assert not canceller.done()
    released.set()
    await asyncio.wait({canceller}, timeout=5)
    assert all(task.done() for task in tasks)
    assert tasks[0].cancelled() and isinstance(tasks[1].exception(), Transient)
