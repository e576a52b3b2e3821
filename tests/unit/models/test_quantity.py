"""Kubernetes quantities: exact values, rounding, canonical texts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.models import quantity

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "milli", "canonical"),
    [
        ("0", 0, 0, "0"),
        ("0Ki", 0, 0, "0"),
        ("1", 1, 1000, "1"),
        ("+2", 2, 2000, "2"),
        ("-1.5", -2, -1500, "-1500m"),
        ("1.5", 2, 1500, "1500m"),
        (".5", 1, 500, "500m"),
        ("5.", 5, 5000, "5"),
        ("100m", 1, 100, "100m"),
        ("1000m", 1, 1000, "1"),
        ("0.1m", 1, 1, "100u"),
        ("1n", 1, 1, "1n"),
        ("1.5Gi", 1536 * 2**20, 1536 * 2**20 * 1000, "1536Mi"),
        ("1Ki", 1024, 1_024_000, "1Ki"),
        ("1023", 1023, 1_023_000, "1023"),
        ("0.5Ki", 512, 512_000, "512"),
        ("1025Ki", 1025 * 1024, 1025 * 1024_000, "1025Ki"),
        ("1500Mi", 1500 * 2**20, 1500 * 2**20 * 1000, "1500Mi"),
        ("2k", 2000, 2_000_000, "2k"),
        ("3M", 3 * 10**6, 3 * 10**9, "3M"),
        ("1E", 10**18, 10**21, "1E"),
        ("1e3", 1000, 1_000_000, "1e3"),
        ("1E3", 1000, 1_000_000, "1e3"),
        ("12e-1", 2, 1200, "1200e-3"),
        ("1Ei", 2**60, 2**60 * 1000, "1Ei"),
        ("  7 ", 7, 7000, "7"),
    ],
)
def test_quantity_text_is_parsed_and_written_canonically(text: str, value: int, milli: int, canonical: str) -> None:
    amount = quantity.parse(text)
    assert (amount.value, amount.milli, str(amount)) == (value, milli, canonical)


def test_finer_than_nano_is_rounded_away_from_zero() -> None:
    assert quantity.parse("0.0000000001").nano == 1
    assert quantity.parse("-0.0000000001").nano == -1
    assert quantity.parse("1e-400").nano == 1


@pytest.mark.parametrize("text", ["9223372036854775808", "100000Ei", "1e999", "1e9999999999", 10**4000])
def test_larger_than_the_largest_is_cut(text: str | int) -> None:
    assert quantity.parse(text).value == MAX


def test_numbers_are_quantities_too() -> None:
    assert quantity.canonical(2) == "2"
    assert quantity.canonical(0.25) == "250m"
    assert quantity.to_milli(1e-7) == 1
    assert quantity.parse(-(10**6000)).value == -MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "m",
        "Ki",
        "x",
        "1x",
        "1 Gi",
        "1kk",
        "1gi",
        "1K",
        "--1",
        "1ee3",
        "1e",
        "1e1.5",
        "１",
        "1" * 300,
        True,
        float("inf"),
    ],
)
def test_malformed_quantity_is_invalid(text: str | float) -> None:
    with pytest.raises(Invalid, match="is not a quantity: write a number"):
        quantity.parse(text)


def test_quantity_is_written_with_the_largest_whole_suffix() -> None:
    assert quantity.from_milli(250) == "250m"
    assert quantity.from_milli(2000) == "2"
    assert quantity.from_bytes(1536 * 2**20) == "1536Mi"
    assert quantity.from_bytes(1023) == "1023"


@given(
    st.integers(0, 10**6),
    st.text("0123456789", max_size=8),
    st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e2", "E-2"]),
    st.booleans(),
)
def test_the_value_is_exact_up_to_one_nano(whole: int, part: str, suffix: str, negative: bool) -> None:
    scale = {
        "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(1000),
        "M": Fraction(10**6), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
        "e2": Fraction(100), "E-2": Fraction(1, 100),
    }[suffix]  # fmt: skip
    exact = Fraction(f"{whole}.{part or 0}") * scale
    amount = quantity.parse(f"{'-' if negative else ''}{whole}.{part}{suffix}")
    error = abs(amount.nano) - exact * 10**9
    assert 0 <= error < 1
    assert abs(amount.value) - exact < 1


@given(st.integers(-MAX * quantity.NANO, MAX * quantity.NANO), st.sampled_from(list(quantity.Notation)))
def test_the_canonical_text_means_the_same(nano: int, notation: quantity.Notation) -> None:
    if notation is quantity.Notation.BINARY:
        nano -= nano % quantity.NANO  # binary suffixes are for whole units
    amount = quantity.Amount(nano, notation)
    again = quantity.parse(str(amount))
    assert again.nano == nano
    assert quantity.canonical(str(amount)) == str(amount)


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_invalid(text: str) -> None:
    try:
        amount = quantity.parse(text)
    except Invalid:
        return
    assert quantity.parse(str(amount)).nano == amount.nano
