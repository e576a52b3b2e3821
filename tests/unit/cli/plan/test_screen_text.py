"""Text of unknown origin in the cells of a terminal."""

from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pykubelet.cli.plan.screen_text import Line, Span, clipped, cut, cut_middle, fitted, log_text, visible, wrapped

HOSTILE = "\x1b[2J\x1b]0;title\x07web\r\n\u202egpj.exe\u2028x\x9b31m\udc80"


def test_hostile_text_has_no_control_and_no_direction_characters() -> None:
    shown = visible(HOSTILE)
    assert shown == "\\x1b[2J\\x1b]0;title\\x07web\\r\\n\\u202egpj.exe\\u2028x\\x9b31m\\x80"
    assert log_text(b"\x1b]0;owned\x07 \xff") == "\\x1b]0;owned\\x07 \ufffd"


def test_log_lines_lose_colours_and_expand_tabs() -> None:
    assert log_text(b"\x1b[1;32mok\x1b[0m\tdone\r\n") == "ok      done"
    assert log_text("日本 ⚠\ufe0f".encode()) == "日本 ⚠"


@given(st.text(), st.integers(0, 40))
def test_fitted_text_has_exactly_the_width(text: str, width: int) -> None:
    shown = visible(text)
    assert cell_len(fitted(shown, width)) == width
    assert cell_len(fitted(shown, width, right=True)) == width
    assert cell_len(cut_middle(shown, width, 6)) <= width
    assert not any(category(char) in ("Cc", "Cf", "Cn", "Cs", "Zl", "Zp") for char in shown)


@given(st.text(), st.integers(1, 40))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    shown = visible(text)
    lines = wrapped(shown, width)
    assert all(cell_len(line) <= width for line in lines)
    if width > 1:
        assert "".join(lines) == shown


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("abc", 0, ""),
        ("abc", 1, "…"),
    ],
)
def test_cut_shortens_text_to_the_width_on_screen(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


def test_clipped_line_ends_at_the_width() -> None:
    line = clipped(Line((Span("日本"), Span("abc"), Span("rest"))), 6)
    assert line.text == "日本a…"
