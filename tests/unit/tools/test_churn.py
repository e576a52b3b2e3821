"""The judgement of `make churn`."""

from benchmarks.churn import Findings, Sample, sparkline, thirds

FLAT = {"RSS MiB": 60.0, "threads": 10.0, "descriptors": 20.0, "tasks": 50.0}


def findings(daemon: str, figure: str, series: list[float]) -> Findings:
    return Findings([Sample(at, daemon, {**FLAT, figure: value}) for at, value in enumerate(series)])


def test_flat_figures_are_accepted() -> None:
    assert findings("agent", "RSS MiB", [60, 62, 59, 61, 60, 61.5, 62, 60, 61]).grown() == []
    assert findings("server", "threads", [9, 12, 10, 9, 11, 12]).grown() == []


def test_growth_of_each_figure_is_named() -> None:
    for daemon in ("agent", "server"):
        for figure in FLAT:
            grown = findings(daemon, figure, [20.0 + at for at in range(30)]).grown()
            assert grown == [f"{daemon}: {figure} grew from 24.5 to 44.5"]


def test_thirds_are_medians() -> None:
    assert thirds([]) == (0, 0)
    assert thirds([3]) == (3, 3)
    assert thirds([1, 100, 2, 7, 7, 7, 9, 8, 1000]) == (2, 9)


def test_sparkline_is_as_wide_as_asked() -> None:
    assert sparkline([1, 2, 4]) == "▃▅█"
    assert len(sparkline(list(range(1000)), width=40)) == 40
    assert sparkline([]) == ""
