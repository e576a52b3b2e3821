"""Scales and formats of the two cgroup versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.linux.cgroups import UNLIMITED
from pykubelet.linux.cgroups.convert import cpu_max, flat_keyed, limit, shares_to_weight, weight_to_shares


@pytest.mark.parametrize(
    ("shares", "weight"),
    [(0, 1), (2, 1), (3, 1), (28, 1), (29, 2), (1024, 39), (2048, 79), (262_144, 10_000), (999_999, 10_000)],
)
def test_shares_are_converted_to_the_weight_of_the_kernel(shares: int, weight: int) -> None:
    assert shares_to_weight(shares) == weight


@pytest.mark.parametrize(("weight", "shares"), [(1, 2), (39, 998), (100, 2597), (10_000, 262_144)])
def test_weight_is_converted_to_the_shares_of_the_kernel(weight: int, shares: int) -> None:
    assert weight_to_shares(weight) == shares


@given(st.integers(2, 262_144), st.integers(2, 262_144))
def test_the_order_is_kept(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert 1 <= shares_to_weight(low) <= shares_to_weight(high) <= 10_000


def test_limits_are_written_as_cgroup_v2_reads_them() -> None:
    assert (limit(UNLIMITED), limit(0), limit(7)) == ("max", "0", "7")
    assert cpu_max(UNLIMITED, 100_000) == "max 100000"
    assert cpu_max(5000, None) == "5000"


def test_flat_keyed_skips_what_it_does_not_know() -> None:
    assert flat_keyed("anon 5\nfile 7\nbroken\ntotal x\n\n") == {"anon": 5, "file": 7}
