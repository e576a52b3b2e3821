"""The diagrams of ARCHITECTURE.md are those of the transition tables."""

from pathlib import Path

import pytest

from tools.gen_diagrams import drawn, main

TEXT = "Before.\n<!-- diagrams: begin -->\nold\n<!-- diagrams: end -->\nAfter.\n"


def test_diagrams_are_written_between_the_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    file = tmp_path / "A.md"
    file.write_text(TEXT)
    assert main(["--check"], file) == 1 and file.read_text() == TEXT
    assert main([], file) == 0
    assert main(["--check"], file) == 0
    text = file.read_text()
    assert text.startswith("Before.\n<!-- diagrams: begin -->\n") and text.endswith("<!-- diagrams: end -->\nAfter.\n")
    assert "    ready --> stopped: it is stopped, its infra process ends, or a part is lost\n" in text
    assert text.count("```mermaid") == 3 and "old" not in text


def test_diagrams_of_a_text_without_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="diagrams: begin"):
        drawn("no marks\n")
