"""The suites of `make test`: what runs beside what, and what becomes of failures, skips and Ctrl-C."""

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from pykubelet.testing.agent import wait_for
from tools.suites import NAMES, RUNTIMES, Outcome, Stage, Suite, plan, table

ROOT = Path(__file__).parents[3]
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert 1 == 2, 'no luck'\n"
SKIPS = "import pytest\n@pytest.mark.skip(reason='no moon tonight')\ndef test_skips(): pass\n"


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


def suite_of(tmp_path: Path, name: str, text: str, *options: str) -> Suite:
    """A suite of pytest, away from this project's settings."""
    directory = tmp_path / name
    directory.mkdir()
    (directory / f"test_{name}.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    return Suite(name, (sys.executable, "-m", "pytest", "-c", str(directory / "pytest.ini"), *options, str(directory)))


def matches(expression: Expression, marks: Mapping[str, bool]) -> bool:
    return expression.evaluate(lambda name, /, **_: marks[name])


def played(tmp_path: Path, *suites: Suite, lanes: int = 2) -> dict[str, Outcome]:
    stage = Stage(suites, lanes, tmp_path)
    stage.play()
    return {outcome.suite.name: outcome for outcome in stage.outcomes}


@pytest.mark.parametrize("runtime", [*RUNTIMES, "both"])
def test_every_test_is_in_one_suite(runtime: str) -> None:
    suites = [suite for suite in plan(NAMES, runtime) if suite.tests]
    directories = {word for suite in suites for word in suite.command if word.startswith("tests/")}
    expected = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()}
    expected -= {"tests/v2"}  # `make test-v2` runs them
    assert expected | {"tests/contract", "tests/unit/kubelet", "tests/faults/test_every_fault.py"} == directories
    assert [suite.command[-1] for suite in suites][:2] == ["--ignore=tests/unit/kubelet", "tests/unit/kubelet"]
    chosen = ["criserver", "containerd"] if runtime == "both" else [runtime]
    wanted = {(each, alone) for each in (*chosen, "") for alone in (True, False)}
    found = []
    for suite in suites:
        if "tests/faults" not in suite.command:
            continue
        expression = Expression.compile(suite.command[suite.command.index("-m", 3) + 1])
        (asked,) = (word.partition("=")[2] for word in suite.command if word.startswith("--runtime="))
        for on, alone in wanted:
            marks = {"each_runtime": bool(on), "alone": alone}
            if matches(expression, marks) and (not on or asked in (on, "both")):
                found.append((on, alone))
    assert sorted(found) == sorted(wanted)


def test_rules_of_the_code_base_are_tested_by_make_lint_and_by_no_other_suite() -> None:
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert "pytest -q tests/unit/test_*.py" in lint
    (all_else,) = (suite for suite in plan(["unit"], "both") if "tests/unit" in suite.command)
    assert "--ignore-glob=tests/unit/test_*.py" in all_else.command


def test_two_run_at_once_and_what_measures_time_alone(tmp_path: Path) -> None:
    note = tmp_path / "notes"
    text = f"""
import time
with open({str(note)!r}, 'a+', 1) as notes:
    print('+', file=notes)
    deadline = time.monotonic() + 60
    while notes.seek(0) or notes.read().count('+') < 2:  # the first waits for the one beside it
        assert time.monotonic() < deadline
        time.sleep(0.01)
    print('-', file=notes)
"""
    suites = [Suite(f"s{number}", script(text)) for number in range(3)]
    outcomes = played(tmp_path, *suites, Suite("timing", script(text), alone=True))
    assert {outcome.status for outcome in outcomes.values()} == {0}
    order = "".join(note.read_text().split())
    assert order.endswith("+-")
    assert max(itertools.accumulate(1 if step == "+" else -1 for step in order)) == 2


def test_patience_of_a_suite_grows_with_the_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYKUBELET_TEST_PATIENCE", raising=False)
    text = "import os; print('patience', os.environ['PYKUBELET_TEST_PATIENCE'])"
    for lanes in (1, 2, 3):
        played(tmp_path, Suite("beside", script(text)), Suite("timing", script(text), alone=True), lanes=lanes)
        assert (tmp_path / "beside.log").read_text() == f"patience {lanes}\n"
        assert (tmp_path / "timing.log").read_text() == "patience 1\n"


def test_a_failure_stops_no_other(tmp_path: Path) -> None:
    ends, lasts = script("raise SystemExit(3)"), script("import time; time.sleep(0.5)")
    outcomes = played(tmp_path, Suite("bad", ends), Suite("beside", lasts), Suite("late", lasts))
    assert {name: outcome.status for name, outcome in outcomes.items()} == {"bad": 3, "beside": 0, "late": 0}


def test_table_and_output_report_the_outcome_of_each_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suites = (suite_of(tmp_path, "good", PASSES + SKIPS), suite_of(tmp_path, "bad", FAILS), Suite("late", script("")))
    outcomes = played(tmp_path, *suites, lanes=1)
    shown = capsys.readouterr().out
    assert "##### bad\n" in shown and "no luck" in shown and "1 passed, 1 skipped" in shown
    reported = table(list(outcomes.values()), 61)
    rows = {line.split()[0]: line.split()[1:] for line in reported.splitlines()}
    assert rows["good"][:3] + rows["good"][4:] == ["1", "0", "1", "ok"]
    assert rows["bad"][:3] + rows["bad"][4:] == ["0", "1", "0", "FAILED"]
    assert rows["all"] == ["1", "1", "1", "1:01"]
    assert rows["late"] == ["0:00", "ok"]
    assert "failed: test_bad::test_fails" in reported
    assert "skipped 1 × no moon tonight" in reported


def test_a_suite_that_dies_is_a_failure(tmp_path: Path) -> None:
    suite = suite_of(tmp_path, "dead", "import os\ndef test_ends(): os._exit(0)\n")
    (outcome,) = played(tmp_path, suite).values()
    assert outcome.status == 1 and not outcome.counts


def test_the_end_lets_both_clean_up(tmp_path: Path) -> None:
    waiting = f"""
import pathlib, time, pytest
@pytest.fixture
def thing():
    yield
    time.sleep(0.5)
    pathlib.Path({str(tmp_path)!r}, __name__ + ".cleaned").touch()
def test_waits(thing):
    pathlib.Path({str(tmp_path)!r}, __name__ + ".begun").touch()
    time.sleep(60)
"""
    one, two = suite_of(tmp_path, "one", waiting), suite_of(tmp_path, "two", waiting)
    program = f"""
import json, signal
from pathlib import Path
from tools.suites import Stage, Suite
suites = [Suite(*each) for each in {[(one.name, one.command), (two.name, two.command), ("late", script(""))]!r}]
stage = Stage(suites, 2, Path({str(tmp_path)!r}))
signal.signal(signal.SIGINT, stage.interrupt)
stage.play()
print(json.dumps({{each.suite.name: each.status for each in stage.outcomes}}))
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        wait_for(
            lambda: len(list(tmp_path.glob("*.begun"))) == 2 or process.poll() is not None,
            30,
            lambda: "the suites have not begun",
        )
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=30)
    assert len(list(tmp_path.glob("*.cleaned"))) == 2
    assert json.loads(shown.splitlines()[-1]) == {"one": 2, "two": 2, "late": None}


def test_suites_do_not_share_temporary_directories(tmp_path: Path) -> None:
    test = "from pathlib import Path\ndef test(tmp_path): Path({there!r}).write_text(str(tmp_path.parent))\n"
    suites = [suite_of(tmp_path, name, test.format(there=str(tmp_path / f"{name}.said"))) for name in ("one", "two")]
    assert {outcome.status for outcome in played(tmp_path, *suites).values()} == {0}
    used = [Path((tmp_path / f"{name}.said").read_text()) for name in ("one", "two")]
    assert used[0] != used[1]
    assert all(directory.is_relative_to(tmp_path) for directory in used)
