"""Supervised tasks restart with back-off; cancellation and normal ends pass through."""

import asyncio
import logging

import pytest

from pykubelet.base.concurrency.guard import item_failures
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
        task = group.create_task(supervise("test", "work", work, clock=clock, policy=POLICY))
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
        group.create_task(supervise("test", "work", work, clock=clock, policy=POLICY))
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
        group.create_task(supervise("test", "work", work, clock=clock, policy=POLICY))
        await clock.advance(100)
    assert started == [0, 30]


async def test_cancellation_passes_through() -> None:
    clock = VirtualClock()
    entered = asyncio.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervise("test", "work", work, clock=clock, policy=POLICY))
        await entered.wait()
        task.cancel()
    assert task.cancelled()


async def test_same_failure_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    errors: list[Exception] = [ValueError("a defect"), ValueError("a defect"), Transient("away"), Transient("away")]
    before = item_failures().get("test.once", 0)

    async def work() -> None:
        if errors:
            raise errors.pop(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("test.once", "work", work, clock=clock, policy=POLICY))
        await clock.advance(60)
    assert item_failures()["test.once"] - before == 4
    reported = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.__dict__["error"] for record in reported] == ["ValueError('a defect')", "Transient('away')"]
    assert [bool(record.exc_info) for record in reported] == [True, False], "a defect is logged with its trace"


async def test_failure_after_a_long_run_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            await clock.sleep(200)
        if runs < 4:
            raise Permanent("broken")

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise("test", "work", work, clock=clock, policy=POLICY))
        await clock.advance(300)
    assert [record.__dict__["restarts"] for record in caplog.records if record.levelno == logging.ERROR] == [1, 3]


async def test_loop_without_failures_is_among_those_that_are_counted() -> None:
    async def work() -> None:
        assert item_failures()["test.none"] == 0

    await supervise("test.none", "work", work, clock=VirtualClock())
