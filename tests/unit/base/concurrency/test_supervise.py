"""Supervised tasks restart with back-off; cancellation and normal ends pass through."""

import asyncio
import logging

import pytest

from pykubelet.base.concurrency.supervise import RestartPolicy, supervise
from pykubelet.base.errors import Permanent, Transient
from pykubelet.testing.clock import VirtualClock

POLICY = RestartPolicy(initial=1, maximum=4, reset_after=100, jitter=0)


async def test_restarts_with_growing_delays_until_it_returns() -> None:
    clock = VirtualClock()
    started: list[float] = []

    async def work() -> None:
        started.append(clock.monotonic() - 1000)
        if len(started) < 5:
            raise Permanent("broken")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervise("work", work, clock=clock, policy=POLICY))
        await clock.advance(60)
        assert task.done()
    assert started == [0, 1, 3, 7, 11]


async def test_long_run_resets_the_delay() -> None:
    clock = VirtualClock()
    started: list[float] = []

    async def work() -> None:
        started.append(clock.monotonic() - 1000)
        if len(started) == 3:
            await clock.sleep(200)
        if len(started) < 5:
            raise Permanent("broken")

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("work", work, clock=clock, policy=POLICY))
        await clock.advance(300)
    assert started == [0, 1, 3, 204, 206]


async def test_the_delay_asked_for_is_kept() -> None:
    clock = VirtualClock()
    started: list[float] = []

    async def work() -> None:
        started.append(clock.monotonic() - 1000)
        if len(started) == 1:
            raise Transient("busy", retry_after=30)

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("work", work, clock=clock, policy=POLICY))
        await clock.advance(100)
    assert started == [0, 30]


async def test_cancellation_passes_through() -> None:
    clock = VirtualClock()
    entered = asyncio.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervise("work", work, clock=clock, policy=POLICY))
        await entered.wait()
        task.cancel()
    assert task.cancelled()


async def test_gives_up_after_max_restarts(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        raise ValueError("a defect")

    async def outer() -> str:
        policy = RestartPolicy(initial=1, jitter=0, max_restarts=2)
        with pytest.raises(ValueError, match="a defect"):
            await supervise("work", work, clock=clock, policy=policy)
        return "raised"

    async with asyncio.TaskGroup() as group:
        task = group.create_task(outer())
        await clock.advance(100)
    assert (task.result(), runs) == ("raised", 3)
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [getattr(record, "restarts", None) for record in failures] == [1, 2]
    assert all(record.exc_info for record in failures), "a defect is logged with its trace"
