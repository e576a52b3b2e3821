"""Tables, ages and sizes as kubectl prints them."""

import pytest

from pykubelet.cli.plan.columns import Columns, age, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (310, "5m10s"),
        (600, "10m"),
        (10_740, "179m"),
        (3 * 3600 + 25 * 60, "3h25m"),
        (8 * 3600, "8h"),
        (47 * 3600 + 60, "47h"),
        (52 * 3600, "2d4h"),
        (48 * 3600, "2d"),
        (8 * 86400 + 3600, "8d"),
        (400 * 86400, "400d"),
    ],
)
def test_age_text_is_that_of_kubectl(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (999, "999B"), (1000, "1kB"), (1_037_000, "1.04MB"), (2_500_000_000, "2.5GB"), (3 * 10**12, "3TB")],
)
def test_size_text_has_three_digits_and_a_decimal_unit(count: int, text: str) -> None:
    assert size(count) == text


def test_columns_are_aligned_and_headed_once() -> None:
    columns = Columns("NAME", "STATUS")
    assert columns.render([("a", "Running"), ("longer", "x")]) == "NAME     STATUS\na        Running\nlonger   x"
    assert columns.render([("b", "Done")]) == "b        Done"
