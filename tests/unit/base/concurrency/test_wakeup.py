"""Sleeps that other tasks end early."""

import asyncio

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.testing.clock import VirtualClock


async def test_sleep_ends_after_its_time() -> None:
    clock = VirtualClock()
    wakeup = Wakeup(clock)
    task = asyncio.create_task(wakeup.sleep(5))
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.2)
    await task
    assert clock.sleepers == 0


async def test_wake_ends_the_sleep_and_leaves_no_sleeper() -> None:
    clock = VirtualClock()
    wakeup = Wakeup(clock)
    task = asyncio.create_task(wakeup.sleep(3600))
    await clock.advance(1)
    wakeup.wake()
    await task
    assert clock.sleepers == 0


async def test_wake_before_the_sleep_ends_it_unless_cleared() -> None:
    clock = VirtualClock()
    wakeup = Wakeup(clock)
    wakeup.wake()
    await wakeup.sleep(3600)
    wakeup.clear()
    task = asyncio.create_task(wakeup.sleep(3600))
    await clock.advance(1)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0


async def test_wake_ends_the_sleeps_of_several_tasks() -> None:
    clock = VirtualClock()
    wakeup = Wakeup(clock)
    tasks = [asyncio.create_task(wakeup.sleep(seconds)) for seconds in (None, 3600, 7200)]
    await clock.advance(3600)
    assert [task.done() for task in tasks] == [False, True, False]
    wakeup.wake()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert clock.sleepers == 0


async def test_sleep_of_no_time_lets_other_tasks_run_and_ends() -> None:
    for seconds in (0.0, -1.0):
        await asyncio.wait_for(Wakeup(VirtualClock()).sleep(seconds), 10)
        await asyncio.wait_for(Wakeup(SystemClock()).sleep(seconds), 10)
