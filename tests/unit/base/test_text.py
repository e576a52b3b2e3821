"""Text from anybody, made fit to be shown."""

import os
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.text import cut, encodable, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/m/web.yaml", "/m/web.yaml"),
        ("/m/café.yaml", "/m/café.yaml"),
        (os.fsdecode(b"/m/caf\xe9.yaml"), "/m/caf\\xe9.yaml"),
        ("two\nlines\x1b[2J", "two\\nlines\\x1b[2J"),
        ("half\ud800", "half\\ud800"),
        ("\x00", "\\x00"),
        ("moc.\u202etxt", "moc.\\u202etxt"),
        ("a\u200bb\u2066c\u2069\ufeff", "a\\u200bb\\u2066c\\u2069\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("one\u2028two", "one\\u2028two"),
        ("soft\xadhyphen", "soft\\xadhyphen"),
        ("❤\ufe0f \u0600\u0661", "❤\ufe0f \u0600\u0661"),
    ],
)
def test_printable_text_with_unfit_characters_shows_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_printable_any_text_is_one_line_that_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert encodable(shown)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
    assert len(shown.splitlines()) <= 1
    assert printable(shown) == shown


_VISIBLE_FORMATS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Format characters with a shape of their own (property Prepended_Concatenation_Mark)."""


@pytest.mark.parametrize("category", ["Cf", "Zl", "Zp", "Cc", "Cs"])
def test_printable_every_character_of_a_category_that_hides_is_escaped(category: str) -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == category]
    shown = [char for char in every if printable(char) == char]
    assert [char for char in shown if not re.fullmatch(f"[{_VISIBLE_FORMATS}]", char)] == []


def test_printable_lines_keeps_line_feeds_and_tabs_and_escapes_the_rest() -> None:
    assert printable_lines("a\tb\r\n\x1b[2Jc\u2028\n") == "a\tb\\r\n\\x1b[2Jc\\u2028\n"


@given(st.text(st.characters(exclude_categories=()), max_size=30), st.integers(0, 40))
def test_cut_is_the_longest_beginning_within_the_limit(text: str, limit: int) -> None:
    found, shown = cut(text, limit), text.encode(errors="replace").decode()
    if len(shown.encode()) <= limit:
        assert found == shown
    else:
        assert shown.startswith(found)
        assert len(found.encode()) <= limit < len(shown[: len(found) + 1].encode())


@given(st.text(st.characters(exclude_categories=())))
def test_encodable_any_text_agrees_with_the_encoder(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        assert not encodable(text)
    else:
        assert encodable(text)
