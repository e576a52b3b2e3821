"""Groups of pods that end together at a node shutdown, and their grace periods."""

import pytest

from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period, grace_seconds, grouped, periods, total_seconds
from tests.unit.kubelet.observe.node_shutdown.build import make_pod

CRITICAL = 2_000_000_000


@pytest.mark.parametrize(
    ("by_priority", "total", "critical", "expected"),
    [
        ({}, 0, 0, ()),
        ({}, 30, 10, (Period(0, 20), Period(CRITICAL, 10))),
        ({}, 30, 0, (Period(0, 30), Period(CRITICAL, 0))),
        ({}, 30.9, 10.5, (Period(0, 20), Period(CRITICAL, 10))),
        ({}, 10, 20, ()),
        ({100: 10, -5: 20, 7: 30}, 0, 0, (Period(-5, 20), Period(7, 30), Period(100, 10))),
    ],
)
def test_shutdown_periods_follow_the_configuration(
    by_priority: dict[int, int], total: float, critical: float, expected: tuple[Period, ...]
) -> None:
    assert periods(by_priority, total, critical) == expected


def test_total_is_the_sum_of_the_periods() -> None:
    assert total_seconds((Period(0, 20), Period(5, 15))) == 35
    assert total_seconds(()) == 0


@pytest.mark.parametrize(
    ("priority", "group"), [(None, 1), (-50, 0), (-10, 0), (-1, 0), (0, 1), (99, 1), (100, 2), (CRITICAL, 2)]
)
def test_pod_belongs_to_the_last_period_that_is_not_above_its_priority(priority: int | None, group: int) -> None:
    ordered = (Period(-10, 1), Period(0, 2), Period(100, 3))
    (found,) = grouped(ordered, [make_pod("a", priority)])
    assert found.period is ordered[group]


def test_groups_are_in_the_order_of_their_priority_without_empty_ones() -> None:
    ordered = (Period(0, 2), Period(50, 3), Period(100, 4))
    found = grouped(ordered, [make_pod("a", 100), make_pod("b"), make_pod("c", 7)])
    assert [(group.period.priority, [pod.metadata.name for pod in group.pods]) for group in found] == [
        (0, ["b", "c"]),
        (100, ["a"]),
    ]


@pytest.mark.parametrize(("own", "expected"), [(None, 20), (5, 5), (20, 20), (90, 20), (0, 0)])
def test_grace_period_is_the_pods_own_but_not_longer_than_the_groups(own: int | None, expected: int) -> None:
    assert grace_seconds(make_pod("a", grace=own), Period(0, 20)) == expected
