"""Programs on a pseudo-terminal."""

import pytest

from pykubelet.testing.terminal import COLUMNS, LINES, Terminal


def test_program_has_a_terminal_of_the_given_size() -> None:
    with Terminal(["stty", "size"]) as terminal:
        assert terminal.end() == 0
        assert f"{LINES} {COLUMNS}" in terminal.shown
    with Terminal(["stty", "size"], size=(33, 111)) as terminal:
        terminal.expect("33 111")


def test_text_is_found_after_the_text_found_before() -> None:
    with Terminal(["sh", "-c", "echo one; echo two; read line; echo got-$line; exit 5"]) as terminal:
        terminal.expect("one")
        terminal.expect("two")
        assert not terminal.shows("one", 0.05)
        terminal.type("three\n")
        terminal.expect("got-three")
        assert not terminal.shows("more", 5)
        assert terminal.end() == 5
        assert terminal.until(lambda shown: "one" in shown)


def test_text_that_is_not_shown_is_an_error_that_shows_the_output() -> None:
    with Terminal(["echo", "something"]) as terminal, pytest.raises(AssertionError, match="something"):
        terminal.expect("else")


def test_resize_and_interrupt_are_passed_to_the_program() -> None:
    script = "trap 'stty size' WINCH; trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    with Terminal(["sh", "-c", script]) as terminal:
        terminal.expect("ready")
        terminal.resize(22, 77)
        terminal.expect("22 77")
        terminal.type("\x03")
        terminal.expect("interrupted")
        assert terminal.end() == 3


def test_program_that_still_runs_is_ended() -> None:
    with Terminal(["sleep", "1000"]) as terminal:
        assert terminal.process.poll() is None
    assert terminal.process.poll() is not None
