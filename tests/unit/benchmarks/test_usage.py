"""Report of a run on the time that the host of a virtual machine took."""

import pytest

from benchmarks.usage import stolen_remark, stolen_seconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, ""),
        (1.9, ""),
        (7.0, "the host took 7% of a core from this machine (steal): times of other runs are not comparable"),
    ],
)
def test_time_that_the_host_took_is_reported_from_two_percent_of_a_core_on(seconds: float, expected: str) -> None:
    assert stolen_remark(seconds, 100.0) == expected


def test_stolen_time_is_read_from_the_kernel_and_never_decreases() -> None:
    first = stolen_seconds()
    assert 0.0 <= first <= stolen_seconds()
