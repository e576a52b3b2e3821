"""A lock for many, or for one alone."""

import asyncio

from pykubelet.base.concurrency.shared_lock import SharedLock
from pykubelet.testing.wait import settle


async def test_many_may_hold_it_and_then_no_one_alone() -> None:
    lock = SharedLock()
    async with lock.shared(), lock.shared():
        with lock.exclusive() as alone:
            assert not alone
    with lock.exclusive() as alone:
        assert alone
        with lock.exclusive() as second:
            assert not second


async def test_sharers_wait_for_the_one_that_holds_it_alone() -> None:
    lock, seen = SharedLock(), []

    async def share() -> None:
        async with lock.shared():
            seen.append("shared")

    with lock.exclusive() as alone:
        assert alone
        tasks = [asyncio.create_task(share(), name=f"share-{number}") for number in range(2)]
        await settle()
        assert seen == []
        tasks.pop().cancel()
    await tasks[0]
    assert seen == ["shared"]
    with lock.exclusive() as alone:
        assert alone, "a cancelled sharer holds nothing"


async def test_errors_release_it() -> None:
    lock = SharedLock()
    for _ in range(2):
        try:
            async with lock.shared():
                raise RuntimeError
        except RuntimeError:
            pass
        try:
            with lock.exclusive() as alone:
                assert alone
                raise RuntimeError
        except RuntimeError:
            pass
