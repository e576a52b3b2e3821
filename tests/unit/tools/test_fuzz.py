"""`make fuzz`: shares of time, failures, the table."""

import random
from pathlib import Path

import pytest

from tools import fuzz


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "test_good.py").write_text("def test_it() -> None:\n    assert True\n")
    (tmp_path / "test_bad.py").write_text("def test_it() -> None:\n    assert 'marker' == ''\n")
    (tmp_path / "test_slow.py").write_text("import time\ndef test_it() -> None:\n    time.sleep(60)\n")
    monkeypatch.setattr(fuzz, "_FUZZ", tmp_path)
    monkeypatch.setattr(fuzz, "_ROOT", tmp_path)
    return tmp_path


def test_files_are_chosen_by_words(suite: Path) -> None:
    assert [path.name for path in fuzz.files([])] == ["test_bad.py", "test_good.py", "test_slow.py"]
    assert [path.name for path in fuzz.files(["goo"])] == ["test_good.py"]
    assert fuzz.main(["--minutes", "1", "nothing"]) == 2


def test_failure_ends_the_share_and_is_shown(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--minutes", "1", "bad"]) == 1
    shown = capsys.readouterr().out
    assert "marker" in shown
    assert "FAILED" in shown


def test_first_round_has_few_examples_so_that_it_ends(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[int] = []

    def note(path: Path, examples: int, seed: int, seconds: float) -> tuple[int | None, str]:
        budgets.append(examples)
        return (0, "") if len(budgets) < 6 else (None, "")

    monkeypatch.setattr(fuzz, "_round", note)
    assert fuzz.fuzz(suite / "test_good.py", 60, 300, random.Random(1)).rounds == 5
    assert budgets == [20, 40, 80, 160, 300, 300]


def test_slow_round_is_stopped_when_the_time_is_over(suite: Path) -> None:
    result = fuzz.fuzz(suite / "test_slow.py", 3.0, 10, random.Random(1))
    assert result.cut
    assert not result.failure
    assert result.seconds < 30


def test_table_tells_what_ran() -> None:
    cut = fuzz.Result("test_bb.py", 1, True, 9)
    text = fuzz.table([fuzz.Result("test_a.py", 3, seconds=60.4), cut, fuzz.Result("c.py", 0, True)])
    assert text.splitlines() == [
        "file        rounds  seconds  outcome",
        "test_a.py        3       60  clean",
        "test_bb.py       1        9  clean, last round cut by the time",
        "c.py             0        0  no round has ended: not tested, give it more MINUTES",
    ]
