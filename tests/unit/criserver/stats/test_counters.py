"""Arithmetic of CPU rates."""

import pytest

from pykubelet.criserver.stats.plan.counters import Sample, rate


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, Sample(2, 5), None),
        (Sample(0, 0), Sample(2_000_000_000, 1_000_000_000), 500_000_000),
        (Sample(5, 0), Sample(5, 9), None),
        (Sample(0, 9), Sample(5, 1), None),
    ],
)
def test_rate_needs_two_samples_in_order(before: Sample | None, now: Sample, expected: int | None) -> None:
    assert rate(before, now) == expected
