"""The virtual clock wakes sleepers in order and leaves real time alone."""

import asyncio

import pytest

from pykubelet.base.clock import SystemClock, utc
from pykubelet.testing.clock import VirtualClock


def test_utc_converts_seconds_to_a_date_with_time_zone() -> None:
    assert utc(1_700_000_000.5).isoformat() == "2023-11-14T22:13:20.500000+00:00"


async def test_system_clock_moves_forward() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(-1)
    await clock.sleep(0.001)
    assert clock.monotonic() - before >= 0.001
    assert clock.now() > 1_600_000_000


async def test_sleepers_wake_in_order_of_deadline() -> None:
    clock = VirtualClock(start=50.0)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("c", 3.0), ("a", 1.0), ("b1", 2.0), ("b2", 2.0)):
            group.create_task(sleeper(name, seconds))
        await clock.advance(2.0)
        assert woken == [("a", 51.0), ("b1", 52.0), ("b2", 52.0)]
        assert clock.sleepers == 1
        await clock.advance(1.0)
    assert woken[-1] == ("c", 53.0)
    assert clock.now() == 53.0


async def test_one_advance_carries_a_task_through_many_sleeps() -> None:
    clock = VirtualClock()
    ticks: list[float] = []

    async def ticker() -> None:
        for _ in range(5):
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(ticker())
        await clock.advance(10)
    assert ticks == [1001, 1002, 1003, 1004, 1005]
    assert clock.monotonic() == 1010


async def test_cancelled_sleepers_are_forgotten() -> None:
    clock = VirtualClock()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(clock.sleep(5))
        await clock.settle()
        task.cancel()
    assert clock.sleepers == 0
    await clock.advance(10)


async def test_wall_clock_jump_wakes_no_sleeper() -> None:
    clock = VirtualClock(start=100.0)
    async with asyncio.TaskGroup() as group:
        group.create_task(clock.sleep(5))
        await clock.settle()
        clock.jump_wall(3600)
        await clock.settle()
        assert (clock.now(), clock.monotonic(), clock.sleepers) == (3700.0, 1000.0, 1)
        await clock.advance(5)


async def test_a_spinning_task_is_reported() -> None:
    clock = VirtualClock()

    async def spin() -> None:
        while True:
            await clock.sleep(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(spin())
        with pytest.raises(RuntimeError, match="spinning"):
            await clock.settle()
        task.cancel()
