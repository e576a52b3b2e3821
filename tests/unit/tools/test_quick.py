"""tools/quick.py: which tests concern a change."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tools import quick


def test_closest_tests_come_first() -> None:
    found = quick.tests_for(["src/pykubelet/base/backoff.py", "tests/unit/base/test_text.py"])
    assert found[:2] == ["tests/unit/base/test_text.py", "tests/unit/base/test_backoff.py"]
    assert len(found) == len(set(found))


def test_tests_that_import_a_changed_module_are_among_them() -> None:
    found = quick.tests_for(["src/pykubelet/kubelet/types/resources/qos.py"])
    assert "tests/unit/kubelet/types/resources/test_qos.py" in found
    assert any(not name.startswith("tests/unit/kubelet/types/") for name in found)


def test_other_files_have_no_tests() -> None:
    assert quick.tests_for(["tools/demo.py"]) == []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit in place of the project."""
    for command in (["init", "-q", "-b", "main"], ["config", "user.name", "a"], ["config", "user.email", "a@b"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "a.py").write_text("A = 1\n")
    subprocess.run(["git", "add", "a.py"], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "a"], cwd=tmp_path, check=True)
    monkeypatch.setattr(quick, "_ROOT", tmp_path)
    return tmp_path


def test_changed_and_new_files_are_found(project: Path) -> None:
    (project / "a.py").write_text("A = 2\n")
    (project / "new.py").write_text("")
    (project / "notes.txt").write_text("")
    assert quick.changed_files() == ["a.py", "new.py"]


def test_branch_is_compared_with_its_branch_point(project: Path) -> None:
    subprocess.run(["git", "switch", "-q", "-c", "topic"], cwd=project, check=True)
    (project / "b.py").write_text("")
    subprocess.run(["git", "add", "b.py"], cwd=project, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "b"], cwd=project, check=True)
    assert quick.changed_files() == ["b.py"]


def test_closest_test_runs_alone_and_the_others_share_runs_of_pytest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.py").write_text("A = 2\n")
    names = [f"test_{number}.py" for number in range(9)]
    monkeypatch.setattr(quick, "tests_for", lambda changed: names)
    runs: list[list[str]] = []

    def step(self: object, name: str, command: Sequence[str]) -> None:
        if "pytest" in command:
            runs.append([each for each in command if each.startswith("test_")])

    monkeypatch.setattr(quick._Run, "step", step)
    CliRunner().invoke(quick.main, ["--seconds", "20"])
    assert runs == [names[:1], names[1:7], names[7:]]


def test_failing_lint_fails(project: Path) -> None:
    (project / "a.py").write_text("import os\n")
    done = CliRunner().invoke(quick.main, ["--seconds", "20"])
    assert done.exit_code == 1
    assert "FAILED" in done.output
    assert "F401" in done.output


def test_steps_that_do_not_end_in_time_and_tests_that_did_not_begin_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = quick._Run(0.2)
    run.step("slow", ["sleep", "60"])
    run.step("good", ["true"])
    assert (run.unfinished, run.failed) == (["slow"], False)
    run.step("bad", ["sh", "-c", "echo why; exit 1"])
    assert run.failed
    reported = capsys.readouterr().out
    assert "not finished" in reported and "why" in reported
    (project / "a.py").write_text("A = 2\n")
    monkeypatch.setattr(quick, "tests_for", lambda changed: ["tests/unit/test_late.py"])
    done = CliRunner().invoke(quick.main, ["--seconds", "0"])
    assert "tests/unit/test_late.py" in done.output.splitlines()[-1]
    assert done.output.splitlines()[-1].startswith("incomplete")
