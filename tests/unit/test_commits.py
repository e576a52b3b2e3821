"""The form of commits: ``<area>: <imperative>``, and a body that says why."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SINCE = "9fa8f193"
"""The rule holds for later commits."""
_SUBJECT = re.compile(r"[a-z0-9][\w./-]*(?:, [\w./-]+)*: \S.{2,}")
_LONGEST = 110


def problems(subject: str, body: str) -> list[str]:
    """Name what is wrong with a commit's message."""
    found = []
    if not _SUBJECT.fullmatch(subject):
        found.append("the subject is not of the form '<area>: <imperative>'")
    if len(subject) > _LONGEST:
        found.append(f"the subject has more than {_LONGEST} characters")
    if len(body.split()) < 5:
        found.append("there is no body that says why")
    return found


def test_commits_have_an_area_and_a_body() -> None:
    command = ["git", "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{SINCE}..HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the history of the project is not here")
    commits = [entry.strip("\n").split("\0") for entry in done.stdout.split("\1") if entry.strip()]
    assert not {f"{name} {subject}": bad for name, subject, body in commits if (bad := problems(subject, body))}


@pytest.mark.parametrize(
    ("subject", "body", "count"),
    [
        ("kubelet/volumes: keep what is mounted", "A driver that lies would lose it otherwise.", 0),
        ("kubelet, tests: keep what is mounted", "A driver that lies would lose it otherwise.", 0),
        ("Keep what is mounted", "A driver that lies would lose it otherwise.", 1),
        ("kubelet: " + "x" * 120, "", 2),
    ],
)
def test_message_without_an_area_or_a_body_is_reported(subject: str, body: str, count: int) -> None:
    assert len(problems(subject, body)) == count
