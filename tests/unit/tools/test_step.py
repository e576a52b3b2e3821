"""tools/step.sh: one line for each step of `make run`'s set-up."""

import re
import subprocess
from pathlib import Path

_STEP = Path(__file__).resolve().parents[3] / "tools" / "step.sh"


def _step(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["sh", str(_STEP), *words], cwd=directory, capture_output=True, text=True)


def test_step_prints_one_line_and_logs_the_output(tmp_path: Path) -> None:
    done = _step(tmp_path, "two words", "sh", "-c", "echo said; echo warned >&2")
    assert done.returncode == 0 and re.fullmatch(r"✓ two words  \d+\.\d s\n", done.stdout) and done.stderr == ""
    _step(tmp_path, "more", "echo", "again")
    log = (tmp_path / ".setup.log").read_text()
    assert re.search(r": two words\nsaid\nwarned\n\n--- .*: more\nagain\n", log)


def test_failed_step_names_its_log_and_shows_the_end_of_it(tmp_path: Path) -> None:
    done = _step(tmp_path, "broken", "sh", "-c", "seq 100; echo the cause >&2; exit 7")
    assert done.returncode == 7 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert re.fullmatch(rf"✗ broken failed after \d+\.\d s\. .* is in {tmp_path}/\.setup\.log:", lines[0])
    assert lines[-1] == "the cause" and len(lines) == 16
