"""Lines that are too long for a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.cli.plan.columns import Columns, hanging
from pykubelet.cli.plan.stable_columns import StableColumns

WORDS = st.lists(st.text("abc-", min_size=1, max_size=50), max_size=30).map(" ".join)


def test_line_goes_on_below_its_last_column() -> None:
    line = "main   wait   back-off of a container that has failed"
    assert hanging(line, 14, 36) == "\n".join(
        ["main   wait   back-off of a", " " * 14 + "container that has", " " * 14 + "failed"]
    )


def test_line_without_room_in_its_last_column_goes_on_near_the_left_edge() -> None:
    assert hanging("12s   Warning   pod/web   no image", 26, 30) == "12s   Warning   pod/web   no\n    image"


def test_word_without_room_is_broken() -> None:
    assert hanging("  " + "x" * 50, 2, 40) == "  " + "x" * 38 + "\n  " + "x" * 12


def test_line_stays_as_it_is_without_a_terminal_or_without_room() -> None:
    line = "name   " + "word " * 20
    assert hanging(line, 7, None) == line
    assert hanging(line, 3, 22) == line
    assert hanging("short", 2, 80) == "short"


@given(WORDS, st.integers(0, 40), st.integers(20, 100))
def test_nothing_is_lost_and_no_line_is_too_long(text: str, start: int, width: int) -> None:
    shown = hanging("h" * start + text, start, width)
    assert "".join(shown.split()) == "h" * start + "".join(text.split())
    indent = start if width - start >= 20 else 4
    if width - indent >= 20:
        assert all(len(line) <= width for line in shown.split("\n"))
        assert all(line.startswith(" " * indent) for line in shown.split("\n")[1:])


def test_last_cell_of_a_table_goes_on_below_itself() -> None:
    lines = Columns("A", "MESSAGE").render([("x", "one two three four five six")], 26).splitlines()
    assert lines == ["A   MESSAGE", "x   one two three four", "    five six"]
    assert Columns("A", "MESSAGE").render([("x", "word " * 30)]).count("\n") == 1


def test_watch_keeps_less_room_on_a_narrow_terminal() -> None:
    headings = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE")
    row = ("default", "crash-usenode", "0/1", "CrashLoopBackOff", "4", "94s")
    narrow, wide = (StableColumns(headings, width=width).render([row]).splitlines() for width in (80, None))
    assert len(wide[0]) > 80
    for line in narrow:
        assert len(line) <= 80
    assert narrow[0].index("AGE") == narrow[1].index("94s") <= 74, "an age of 179m fits, too"
    assert narrow[0].split() == list(headings)


def test_watch_of_events_continues_messages_below_themselves() -> None:
    columns = StableColumns(("TYPE", "MESSAGE"), width=40)
    assert columns.render([("Normal", "word " * 10)]).splitlines()[2].startswith(" " * 10 + "word")
