"""Parsing and arithmetic of usage."""

import pytest

from pykubelet.criserver.stats.decide import Interface, Sample, parse_net_dev, rate

# The layout of the kernel.
NET_DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1500      10    2    0    0     0          0         0      700       5    3    0    0     0       0          0
"""  # noqa: E501 - as the kernel prints it


def test_interfaces() -> None:
    assert parse_net_dev(NET_DEV) == (Interface("eth0", 1500, 2, 700, 3, 10, 0, 5, 0),)
    assert parse_net_dev("") == ()


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, Sample(2, 5), None),
        (Sample(0, 0), Sample(2_000_000_000, 1_000_000_000), 500_000_000),
        (Sample(5, 0), Sample(5, 9), None),
        (Sample(0, 9), Sample(5, 1), None),
    ],
)
def test_rates(before: Sample | None, now: Sample, expected: int | None) -> None:
    assert rate(before, now) == expected
