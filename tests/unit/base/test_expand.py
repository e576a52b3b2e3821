"""`$(VAR)` expansion: table of the documented cases and properties over arbitrary text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.base.expand import MOST_EXPANDED, expand, expand_all, references

VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": "", "dotted.name-x": "d"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(A)"),  # values are not expanded again
        ("$(EMPTY)|", "|"),
        ("$(dotted.name-x)", "d"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$()", "$()"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$$$$(A)", "$$1"),
        ("$", "$"),
        ("a$", "a$"),
        ("$$", "$"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$(A", "$(A"),
        ("$(A$(A)", "$(A$(A)"),  # the name runs to the first closing bracket
        ("$($(A))", "$($(A))"),
        ("$(A)$(UNKNOWN)$$x", "1$(UNKNOWN)$x"),
        ("$( A)", "$( A)"),
        ("ü$(A)ß", "ü1ß"),
        ("line\n$(A)", "line\n1"),
    ],
)
def test_expand_replaces_known_variables_only(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@pytest.mark.parametrize(("before", "after"), [("", ""), ("$(A)", "1"), ("$$(A)", "$(A)")])
def test_references_without_an_end_take_linear_time(before: str, after: str) -> None:
    """With a search for the end of each it would be the better part of an hour, in which Python does nothing else."""
    open_ones = "$(" * 500_000
    assert expand(before + open_ones, VARIABLES) == after + open_ones
    assert references(f"$(A){open_ones}") == ("A",)


@given(st.text(alphabet="$()Ax", max_size=40))
def test_expansion_is_that_of_a_single_search(text: str) -> None:
    def value(match: re.Match[str]) -> str:
        return "$" if match[1] is None else VARIABLES.get(match[1], match[0])

    assert expand(text, VARIABLES) == re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def test_expand_all_replaces_variables_of_each_word() -> None:
    assert expand_all(["$(A)", "b"], VARIABLES) == ("1", "b")


def test_references_skips_escapes() -> None:
    assert references("$(A) $$(B) $(C)") == ("A", "C")


@given(st.text(alphabet="$()Ax", max_size=40))
def test_without_variables_only_double_dollars_change(text: str) -> None:
    assert expand(text.replace("$$", ""), {}) == text.replace("$$", "") or "$$" in text.replace("$$", "")
    escaped = text.replace("$", "$$")
    assert expand(escaped, VARIABLES) == text


@pytest.mark.parametrize(("count", "fits"), [(8, True), (9, False)])
def test_text_is_not_made_longer_than_the_limit(count: int, fits: bool) -> None:
    """The whole is refused, not cut off."""
    if fits:
        assert len(expand("$(A)" * count, {"A": "x" * 10}, 80)) == 80
    else:
        with pytest.raises(Invalid, match=r"the variables in '\$\(A\).*longer than 80 characters"):
            expand("$(A)" * count, {"A": "x" * 10}, 80)


def test_texts_together_have_one_limit() -> None:
    large = {"A": "x" * (MOST_EXPANDED // 3)}
    assert len(expand_all(["$(A)"] * 3, large)) == 3
    with pytest.raises(Invalid, match="longer than"):
        expand_all(["$(A)"] * 4, large)
