"""`$(VAR)` expansion: table of the documented cases and properties over arbitrary text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.expand import expand, expand_all, references

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


def test_expand_all_replaces_variables_of_each_word() -> None:
    assert expand_all(["$(A)", "b"], VARIABLES) == ("1", "b")


def test_references_skips_escapes() -> None:
    assert references("$(A) $$(B) $(C)") == ("A", "C")


@given(st.text(alphabet="$()Ax", max_size=40))
def test_without_variables_only_double_dollars_change(text: str) -> None:
    assert expand(text.replace("$$", ""), {}) == text.replace("$$", "") or "$$" in text.replace("$$", "")
    escaped = text.replace("$", "$$")
    assert expand(escaped, VARIABLES) == text
