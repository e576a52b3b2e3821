"""Event times: from the wall clock to the monotonic clock."""

import pytest

from pykubelet.base.event_times import EventTimes
from pykubelet.testing.clock import VirtualClock


@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0])
async def test_moment_after_the_wall_clock_jumped_is_where_it_was(jump: float) -> None:
    clock = VirtualClock()
    event_times = EventTimes(clock)
    wall, at = clock.now() - 5, clock.monotonic() - 5
    assert event_times.monotonic("a", wall) == at
    clock.jump_wall(jump)
    await clock.advance(100)
    assert event_times.monotonic("a", wall) == at


def test_moment_in_the_future_is_now() -> None:
    clock = VirtualClock()
    assert EventTimes(clock).monotonic("a", clock.now() + 3600) == clock.monotonic()


def test_moment_of_another_time_is_another_one() -> None:
    clock = VirtualClock()
    event_times = EventTimes(clock)
    event_times.monotonic("a", clock.now() - 5)
    assert event_times.monotonic("a", clock.now() - 3) == clock.monotonic() - 3


async def test_moments_beyond_the_limit_are_worked_out_again() -> None:
    clock = VirtualClock()
    event_times = EventTimes(clock, most=2)
    wall, at = clock.now(), clock.monotonic()
    for key in "abac":
        event_times.monotonic(key, wall)
    clock.jump_wall(-3600.0)
    await clock.advance(10)
    assert [event_times.monotonic(key, wall) - at for key in "ac"] == [0, 0]
    assert event_times.monotonic("b", wall) == clock.monotonic()
    event_times.forget("b")
    event_times.forget("b")
