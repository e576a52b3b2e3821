"""Text from anybody, made fit to be shown."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.text import encodable, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/m/web.yaml", "/m/web.yaml"),
        ("/m/café.yaml", "/m/café.yaml"),
        (os.fsdecode(b"/m/caf\xe9.yaml"), "/m/caf\\xe9.yaml"),
        ("two\nlines\x1b[2J", "two\\nlines\\x1b[2J"),
        ("half\ud800", "half\\ud800"),
        ("\x00", "\\x00"),
    ],
)
def test_printable_text_with_unfit_characters_shows_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_printable_any_text_is_one_line_that_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert encodable(shown)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
    assert printable(shown) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_encodable_any_text_agrees_with_the_encoder(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        assert not encodable(text)
    else:
        assert encodable(text)
