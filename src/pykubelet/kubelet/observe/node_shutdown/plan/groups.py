"""Groups of pods that a node shutdown ends one after the other, by priority (KEP-2000, KEP-2712)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import Pod

_NO_CLASS: Final = 0
"""Priority of pods without a priority class."""
_SYSTEM_CRITICAL: Final = 2_000_000_000
"""Priority from which pods are critical (``system-cluster-critical``)."""


class Period(Struct, frozen=True):
    """The time for the pods of one range of priorities, which ends below the next period's priority."""

    priority: int
    """The lowest priority of the range."""
    seconds: int


class PodGroup(Struct, frozen=True):
    """Pods that end together."""

    period: Period
    pods: tuple[Pod, ...]


def periods(by_priority: Mapping[int, int], total: Seconds, critical: Seconds) -> tuple[Period, ...]:
    """Return the periods in the order of the shutdown, from the lowest priority; empty: a shutdown ends no pods.

    ``by_priority`` is ``shutdownGracePeriodByPodPriority``, seconds by priority; if it is empty, ``total`` and
    ``critical`` (``shutdownGracePeriod``, ``shutdownGracePeriodCriticalPods``) count.
    """
    if by_priority:
        return tuple(Period(priority, by_priority[priority]) for priority in sorted(by_priority))
    if total == 0 or critical > total:
        return ()
    return Period(_NO_CLASS, int(total - critical)), Period(_SYSTEM_CRITICAL, int(critical))


def total_seconds(wanted: Iterable[Period]) -> int:
    """Return the time that the whole shutdown may take."""
    return sum(period.seconds for period in wanted)


def grouped(ordered: Sequence[Period], pods: Iterable[Pod]) -> tuple[PodGroup, ...]:
    """Return the groups that have pods, in the order of the periods, of which there is at least one.

    A pod belongs to the last period whose priority is not above its own; with a lower priority than all, to the first.
    """
    members: list[list[Pod]] = [[] for _ in ordered]
    bounds = [period.priority for period in ordered]
    for pod in pods:
        members[max(bisect_right(bounds, pod.spec.priority or 0) - 1, 0)].append(pod)
    return tuple(PodGroup(period, tuple(found)) for period, found in zip(ordered, members, strict=True) if found)


def grace_seconds(pod: Pod, period: Period) -> int:
    """Return the pod's grace period in seconds: its own, but not more than the period."""
    own = pod.spec.termination_grace_period_seconds
    return period.seconds if own is None else min(own, period.seconds)
