"""Time of the next look at the machine's memory, and the usage at which the kernel has to notify (pure)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pykubelet.base.units import MIB, Bytes, Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import (
    CONDITION_OF,
    PressureCondition,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.plan.thresholds import met

SHORTEST: Final[Seconds] = 0.5
"""Time between two looks at memory that is nearly short."""
FASTEST: Final = 1 << 30
"""Bytes per second that pods are expected to allocate at most."""
LEAST_GROWTH: Final = Bytes(MIB)
"""Growth below which the kernel does not notify: usage always changes by so much."""


def memory_thresholds(thresholds: Iterable[Threshold]) -> tuple[Threshold, ...]:
    """Return the thresholds of memory."""
    return tuple(each for each in thresholds if CONDITION_OF[each.signal] is PressureCondition.MEMORY)


def newly_met(
    thresholds: Iterable[Threshold], known: Iterable[Threshold], seen: Mapping[Signal, SignalObservation]
) -> bool:
    """Whether a threshold of memory is met that was not met at the last look (``known``)."""
    return bool(set(met(memory_thresholds(thresholds), seen)) - set(known))


def growth(
    thresholds: Iterable[Threshold], seen: Mapping[Signal, SignalObservation]
) -> dict[Signal, tuple[Bytes, ...]]:
    """Return by how many bytes usage may grow until each threshold of memory that is not met now is met.

    The bytes are counted from the present usage, so that the kernel's counter may include memory that the signal leaves
    out, such as inactive files. They are at least ``LEAST_GROWTH``; `next_look` covers the difference.
    """
    found: dict[Signal, tuple[Bytes, ...]] = {}
    for signal, left in _left(thresholds, seen):
        found[signal] = (*found.get(signal, ()), max(left, LEAST_GROWTH))
    return found


def next_look(thresholds: Iterable[Threshold], seen: Mapping[Signal, SignalObservation], most: Seconds) -> Seconds:
    """Return in how many seconds, at most ``most``, pods that allocate fast can have met a threshold of memory."""
    left = [each for _, each in _left(thresholds, seen)]
    return min(most, max(SHORTEST, min(left) / FASTEST)) if left else most


def _left(thresholds: Iterable[Threshold], seen: Mapping[Signal, SignalObservation]) -> Iterator[tuple[Signal, Bytes]]:
    for threshold in memory_thresholds(thresholds):
        now = seen.get(threshold.signal)
        if now is not None and (left := now.available - threshold.least.of(now.capacity)) >= 0:
            yield threshold.signal, Bytes(left + 1)
