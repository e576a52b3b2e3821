"""Wake-up times of pods."""

import asyncio

from pykubelet.kubelet.control.workers.timers import WakeTimers
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.testing.clock import VirtualClock

A, B = PodUID("a"), PodUID("b")


async def test_timers_wake_each_pod_once_at_its_last_time_and_no_cancelled_one() -> None:
    clock, woken = VirtualClock(), list[PodUID]()
    timers, now = WakeTimers(clock, woken.append), clock.monotonic()
    timers.set(A, now + 5)  # before they run
    task = asyncio.create_task(timers.run())
    try:
        await clock.settle()
        timers.set(B, now + 1)
        timers.set(A, now + 2)
        await clock.advance(1.5)
        assert (woken, timers.due(B), timers.due(A)) == ([B], None, now + 2)
        timers.set(B, now + 3)
        timers.cancel(B)
        await clock.advance(60)
        assert (woken, timers.due(A), timers.due(B)) == ([B, A], None, None)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_timer_set_again_for_its_past_time_wakes_the_pod_again() -> None:
    clock, woken = VirtualClock(), list[PodUID]()
    timers, now = WakeTimers(clock, woken.append), clock.monotonic()
    task = asyncio.create_task(timers.run())
    try:
        for _ in range(2):
            timers.set(A, now)
            await clock.settle()
        assert woken == [A, A]
    finally:
        task.cancel()
        await asyncio.wait([task])
