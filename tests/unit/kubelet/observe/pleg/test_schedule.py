"""Times at which PLEG lists and checks pods, its trust in events, and its health."""

import pytest

from pykubelet.kubelet.observe.pleg.plan.schedule import (
    DueWork,
    ScheduledCheck,
    due,
    duration_text,
    fault,
    first_check,
    following_checks,
    free_at,
    is_trusted,
    next_check,
    relist_at,
)
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID

A, B = PodUID("a"), PodUID("b")
CONFIG = PlegConfig()


def test_checks_become_rarer_and_end_when_the_relist_is_as_frequent() -> None:
    config = PlegConfig()
    check: ScheduledCheck | None = first_check(100.0, config)
    gaps: list[float] = []
    at = 100.0
    while check is not None:
        gaps.append(check.at - at)
        at = check.at
        check = next_check(check, at, config)
    assert gaps == sorted(gaps)
    assert gaps[0] == pytest.approx(0.02)
    assert 0.8 < gaps[-1] < config.relist_period
    assert len(gaps) < 60
    # An end at any time in the first second is seen within 100 ms.
    assert max(g for g, t in zip(gaps, _ends(gaps), strict=True) if t <= 1.0) <= 0.1


def _ends(gaps: list[float]) -> list[float]:
    return [sum(gaps[: i + 1]) for i in range(len(gaps))]


@pytest.mark.parametrize(
    ("relist", "checks", "free", "expected"),
    [
        (110.0, {}, 0.0, DueWork(wait=10.0)),
        (110.0, {A: 104.0, B: 103.0}, 0.0, DueWork(wait=3.0)),
        (110.0, {A: 99.0}, 101.0, DueWork(wait=1.0)),
        (110.0, {A: 99.0, B: 103.0}, 100.0, DueWork(checks=(A,))),
        (100.0, {A: 99.0}, 100.0, DueWork(relist=True)),
        (110.0, {A: 99.0, B: 100.0, PodUID("c"): 100.0}, 100.0, DueWork(relist=True)),
    ],
)
def test_list_or_checks_are_due(relist: float, checks: dict[PodUID, float], free: float, expected: DueWork) -> None:
    """At time 100, with at most two checks instead of a list."""
    scheduled = {uid: ScheduledCheck(90.0, at) for uid, at in checks.items()}
    assert due(relist, scheduled, free, 100.0, 2) == expected


def test_slow_runtime_is_asked_for_a_tenth_of_the_time_and_not_later_than_the_relist() -> None:
    assert free_at(100.0, 100.05, CONFIG) == pytest.approx(100.5)
    assert free_at(100.0, 130.0, CONFIG) == 130.0 + CONFIG.relist_period


def test_lists_are_rare_while_events_are_trusted() -> None:
    assert relist_at(100.0, CONFIG, trusted=True) == 100.0 + CONFIG.relist_with_events
    assert relist_at(100.0, CONFIG, trusted=False) == 100.0 + CONFIG.relist_period


def test_event_stream_is_trusted_once_it_has_lasted() -> None:
    assert not is_trusted(None, 100.0, CONFIG)
    assert not is_trusted(100.0, 100.0 + CONFIG.trust_after - 0.1, CONFIG)
    assert is_trusted(100.0, 100.0 + CONFIG.trust_after, CONFIG)


def test_checks_that_a_list_makes_superfluous_end() -> None:
    now = 200.0
    found = following_checks({A: ScheduledCheck(now, now), B: ScheduledCheck(0.0, now)}, [A, B], now, CONFIG)
    assert found == {A: next_check(ScheduledCheck(now, now), now, CONFIG)}


def test_health_is_that_of_the_last_list() -> None:
    assert fault(None, 100.0, CONFIG) == "pleg has yet to be successful"
    assert fault(100.0, 280.0, CONFIG) is None
    assert fault(100.0, 281.5, CONFIG) == "pleg was last seen active 3m1.5s ago; threshold is 3m0s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (2.5, "2.5s"), (180, "3m0s"), (185.25, "3m5.25s"), (3600, "1h0m0s"), (59.9999, "1m0s")],
)
def test_duration_text_has_the_form_of_go(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
