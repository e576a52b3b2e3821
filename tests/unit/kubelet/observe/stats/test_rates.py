from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.observe.stats.rates import LONGEST, CpuRates


def test_a_usage_needs_two_readings() -> None:
    rates = CpuRates()
    assert rates.usage("a", 100.0, 5_000_000_000) is None
    assert rates.usage("a", 110.0, 10_000_000_000) == 500_000_000
    assert rates.usage("a", 110.1, 99_000_000_000) == 500_000_000, "too soon to say anything new"
    assert rates.usage("b", 110.0, 1) is None


def test_an_old_reading_or_a_counter_that_went_back_says_nothing() -> None:
    rates = CpuRates()
    rates.usage("a", 0.0, 100)
    assert rates.usage("a", LONGEST + 1, 200) is None
    assert rates.usage("a", LONGEST + 5, 50) is None
    assert rates.usage("a", LONGEST + 6, 1_000_000_050) == 1_000_000_000


def test_names_without_a_recent_reading_are_stale() -> None:
    rates = CpuRates()
    rates.usage("a", 0.0, 1)
    rates.usage("b", 50.0, 1)
    assert rates.stale(["a", "b", "c"], LONGEST + 1) == ["a", "c"]
    rates.keep_only(["b"])
    assert rates.stale(["b"], 51.0) == []
    rates.keep_only([])
    assert rates.stale(["b"], 51.0) == ["b"]


@given(st.lists(st.tuples(st.floats(0.3, 50), st.integers(0, 10**12)), min_size=1, max_size=20))
def test_usages_add_up_to_the_time(steps: list[tuple[float, int]]) -> None:
    rates, at, cpu, total = CpuRates(), 0.0, 0, 0.0
    rates.usage("a", at, cpu)
    for seconds, used in steps:
        at, cpu = at + seconds, cpu + used
        usage = rates.usage("a", at, cpu)
        assert usage is not None and usage >= 0
        total += usage * seconds
    assert abs(total - cpu) <= len(steps) * 60
