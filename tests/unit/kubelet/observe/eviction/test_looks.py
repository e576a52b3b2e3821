"""The time of the next look at memory, and the growth that the kernel has to report."""

import pytest

from pykubelet.kubelet.observe.eviction.eviction_types import Amount, Signal, SignalObservation, Threshold
from pykubelet.kubelet.observe.eviction.plan import looks

GI = 1 << 30
HARD = Threshold(Signal.MEMORY, Amount(GI))
SOFT = Threshold(Signal.MEMORY, Amount(2 * GI), grace=30)
DISK = Threshold(Signal.NODEFS, Amount(share=0.1))
ALL = (DISK, HARD, SOFT)


def memory(available: int) -> dict[Signal, SignalObservation]:
    return {Signal.MEMORY: SignalObservation(available, 64 * GI), Signal.NODEFS: SignalObservation(0, 10)}


def test_memory_thresholds_leave_out_other_signals() -> None:
    assert looks.memory_thresholds(ALL) == (HARD, SOFT)


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (5 * GI, {Signal.MEMORY: (4 * GI + 1, 3 * GI + 1)}),
        (2 * GI, {Signal.MEMORY: (GI + 1, looks.LEAST_GROWTH)}),
        (2 * GI - 1, {Signal.MEMORY: (GI,)}),
        (0, {}),
    ],
)
def test_growth_ends_where_each_unmet_threshold_is_met(available: int, expected: object) -> None:
    assert looks.growth(ALL, memory(available)) == expected


def test_growth_of_an_unknown_signal_is_unknown() -> None:
    assert looks.growth(ALL, {}) == {}


@pytest.mark.parametrize(
    ("available", "seconds"),
    [
        (60 * GI, 10),
        (8 * GI - 1, 6),
        (4 * GI - 1, 2),
        (2 * GI, 0.5),
        (2 * GI - GI // 4 - 1, 0.75),
        (GI + GI // 4, 0.5),
        (0, 10),
    ],
)
def test_next_look_comes_before_fast_pods_can_have_met_a_threshold(available: int, seconds: float) -> None:
    assert looks.next_look(ALL, memory(available), 10) == seconds


def test_next_look_is_never_later_than_asked_for() -> None:
    assert looks.next_look(ALL, memory(60 * GI), 3) == 3
    assert looks.next_look((DISK,), memory(60 * GI), 3) == 3
    assert looks.next_look(ALL, memory(2 * GI), 0.25) == 0.25


@pytest.mark.parametrize(
    ("available", "known", "expected"),
    [(3 * GI, (), False), (GI, (), True), (GI, (SOFT,), False), (GI - 1, (SOFT,), True), (0, (HARD, SOFT), False)],
)
def test_newly_met_is_what_the_last_look_did_not_find(
    available: int, known: tuple[Threshold, ...], expected: bool
) -> None:
    assert looks.newly_met(ALL, known, memory(available)) is expected
