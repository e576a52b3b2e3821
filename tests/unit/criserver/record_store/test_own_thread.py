"""A thread that runs the calls of one owner in their order."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pykubelet.criserver.record_store.own_thread import OwnThread

_NAME = "own-thread-test"


@pytest.fixture
def thread() -> Iterator[OwnThread]:
    made = OwnThread(_NAME)
    yield made
    made.end()
    assert not [each for each in threading.enumerate() if each.name == _NAME]


async def test_calls_run_in_their_order_in_one_thread(thread: OwnThread) -> None:
    names = await asyncio.gather(*(_ask(thread, number) for number in range(20)))
    assert names == [(number, _NAME) for number in range(20)]


async def _ask(thread: OwnThread, number: int) -> tuple[int, str]:
    return await thread.run(lambda: (number, threading.current_thread().name))


async def test_error_of_the_function_is_raised_and_the_thread_goes_on(thread: OwnThread) -> None:
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    with pytest.raises(SystemExit):
        await thread.run(lambda: exit(3))
    assert await thread.run(lambda: 7) == 7


async def test_cancelled_call_runs_to_its_end(thread: OwnThread) -> None:
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(30)
        done.set()

    async def call() -> None:
        await thread.run(work)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    assert begun.wait(30)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


def test_thread_outlives_the_loop_of_a_call(thread: OwnThread) -> None:
    go = threading.Event()

    async def abandon() -> None:
        thread.run(lambda: go.wait(30))

    asyncio.run(abandon())
    go.set()

    async def ask() -> int:
        return await thread.run(lambda: 7)

    assert asyncio.run(ask()) == 7
