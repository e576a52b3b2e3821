"""Rate limits whose callers wait."""

import asyncio

from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.testing.clock import VirtualClock


async def test_a_burst_passes_and_the_rest_waits_its_turn() -> None:
    clock = VirtualClock()
    limit = RateLimit(5, 3, clock=clock)
    start = clock.monotonic()
    passed: list[float] = []

    async def take() -> None:
        await limit.take()
        passed.append(round(clock.monotonic() - start, 3))

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(take())
        await clock.advance(10)
    assert passed == [0, 0, 0, 0.2, 0.4, 0.6]


async def test_the_bucket_fills_up_again() -> None:
    clock = VirtualClock()
    limit = RateLimit(1, 2, clock=clock)
    for _ in range(2):
        await limit.take()
    await clock.advance(60)
    for _ in range(2):
        await limit.take()  # would hang on the virtual clock if it had to wait
    assert clock.sleepers == 0


async def test_no_rate_is_no_limit() -> None:
    limit = RateLimit(0, 0, clock=VirtualClock())
    for _ in range(1000):
        await limit.take()


async def test_try_take_is_refused_beyond_the_burst_and_allowed_without_a_rate() -> None:
    clock = VirtualClock()
    limit = RateLimit(10.0, 2, clock=clock)
    assert [limit.try_take() for _ in range(3)] == [True, True, False]
    await clock.advance(0.1)
    assert limit.try_take()
    unlimited = RateLimit(0, 1, clock=clock)
    await unlimited.take()
    assert unlimited.try_take()


async def test_changed_limit_holds_for_later_callers() -> None:
    limit = RateLimit(1, 1, clock=VirtualClock())
    assert [limit.try_take() for _ in range(2)] == [True, False]
    limit.change(0, 1)
    assert limit.try_take()
