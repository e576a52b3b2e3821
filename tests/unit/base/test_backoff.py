"""Back-off series: growth, ceiling, staleness, jitter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.backoff import Backoff, jittered


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(10, 300)
    assert [backoff.next("pod", now=100.0) for _ in range(7)] == [10, 20, 40, 80, 160, 300, 300]


def test_keys_that_are_never_used_again_are_forgotten() -> None:
    backoff = Backoff(10, 300)
    for number in range(10_000):
        backoff.next(number, now=float(number))
    # Only those that failed within twice the maximum still count.
    assert len(backoff) <= 2 * 600 + 2
    assert backoff.next(9_999, now=10_000.0) == 20


def test_stale_series_are_looked_for_only_when_the_number_of_series_has_doubled() -> None:
    backoff = Backoff(10, 300)
    for number in range(128):
        backoff.next(number, now=10_000.0 * number)
    assert len(backoff) == 128
    backoff.next(128, now=10_000.0 * 128)
    assert len(backoff) == 1

    backoff = Backoff(10, 300)
    for number in range(300):
        backoff.next(number, now=0)
    for number in range(300, 518):  # twice 259, the number at the last search
        backoff.next(number, now=10_000)
    assert len(backoff) == 518
    backoff.next(518, now=10_000)
    assert len(backoff) == 518 - 300 + 1


def test_keys_are_independent() -> None:
    backoff = Backoff(10, 300)
    backoff.next("a", 0)
    backoff.next("a", 0)
    assert backoff.next("b", 0) == 10
    assert backoff.delay("a") == 20
    assert backoff.delay("unknown") == 0


@pytest.mark.parametrize(
    ("since", "now", "expected"),
    [
        (100.0, 100.0, True),
        (100.0, 109.9, True),
        (100.0, 110.0, False),
        (95.0, 106.0, False),  # counted from when it ended, not from when we noted it
        (701.0, 702.0, False),  # it ran for more than ten minutes: the series is stale
        (699.0, 702.0, True),
    ],
)
def test_crash_loop_window_counts_from_the_end_of_the_run(since: float, now: float, expected: bool) -> None:
    backoff = Backoff(10, 300, reset_after=600)
    backoff.next("c", now=100.0)
    assert (backoff.remaining("c", now, since) > 0) is expected


def test_unknown_key_is_free() -> None:
    backoff = Backoff(10, 300)
    assert backoff.remaining("c", 0, 0) == 0
    assert backoff.remaining("c", 0) == 0


@pytest.mark.parametrize(("event", "expected"), [(None, 20), (699.0, 20), (700.0, 20), (700.1, 10)])
def test_stale_series_starts_again(event: float | None, expected: float) -> None:
    backoff = Backoff(10, 300, reset_after=600)
    backoff.next("c", now=100.0)
    assert backoff.next("c", now=650.0 if event is None else 1000.0, event=event) == expected


def test_default_staleness_is_twice_the_maximum() -> None:
    backoff = Backoff(1, 20)
    backoff.next("c", 0)
    assert backoff.next("c", 40) == 2
    assert backoff.next("c", 80.1) == 1


def test_given_staleness_is_kept() -> None:
    backoff = Backoff(1, 20, reset_after=5)
    backoff.next("c", 0)
    assert backoff.next("c", 5) == 2
    assert backoff.next("c", 10.1) == 1


def test_remaining_counts_down_from_the_last_update() -> None:
    backoff = Backoff(10, 300)
    backoff.next("c", 100)
    assert backoff.remaining("c", 104) == 6
    assert backoff.remaining("c", 111) == 0
    assert backoff.remaining("c", 104, since=1000) == 0.0
    assert isinstance(backoff.remaining("c", 104, since=1000), float), "the series is stale, which is no None"
    assert backoff.remaining("c", 104, since=98) == 4


def test_reset_and_stale_keys_are_dropped() -> None:
    backoff = Backoff(10, 300, reset_after=600)
    backoff.next("old", 0)
    backoff.next("new", 500)
    backoff.gc(600)
    assert len(backoff) == 2
    backoff.gc(601)
    assert len(backoff) == 1
    assert backoff.delay("new") == 10
    backoff.reset("new")
    backoff.reset("never seen")
    assert len(backoff) == 0


def test_jitter_adds_at_most_its_share() -> None:
    assert jittered(10, 0.5, lambda: 1.0) == 15
    assert jittered(10, 0.5, lambda: 0.0) == 10
    assert jittered(10, 0.0, lambda: 1.0) == 10
    assert Backoff(10, 300, jitter=0.5, rand=lambda: 1.0).next("c", 0) == 15


@given(
    initial=st.floats(0.01, 100),
    maximum=st.floats(100, 1000),
    steps=st.lists(st.floats(0, 3000), max_size=30),
)
def test_a_delay_never_leaves_its_bounds(initial: float, maximum: float, steps: list[float]) -> None:
    backoff = Backoff(initial, maximum, jitter=0.3)
    now = 0.0
    for step in steps:
        now += step
        delay = backoff.next("k", now)
        assert initial <= delay <= maximum
        assert backoff.remaining("k", now) == delay
        assert backoff.remaining("k", now, now) > 0
        assert backoff.remaining("k", now + delay * 1.001, now) == 0


def test_lower_maximum_holds_for_present_delays() -> None:
    backoff = Backoff(10, 300)
    for _ in range(4):
        backoff.next("a", 0)
    backoff.limit(15)
    assert (backoff.delay("a"), backoff.remaining("a", 5)) == (15, 10)
    assert backoff.next("a", 20) == 15
    backoff.limit(100)
    assert backoff.next("a", 40) == 30
