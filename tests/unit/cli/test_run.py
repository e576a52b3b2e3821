"""``pykubelet run``: the agent's own process."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.cli.commands.node import run

_APPLY = """
import sys
from pathlib import Path
from pykubelet.cli.commands.node.run import _set_oom_score
_set_oom_score(int(sys.argv[1]))
print(Path("/proc/self/oom_score_adj").read_text())
"""


@pytest.mark.parametrize("score", [700, 1000])
def test_oom_score_of_the_configuration_is_applied_to_the_agent(score: int) -> None:
    found = subprocess.run([sys.executable, "-c", _APPLY, str(score)], check=True, capture_output=True)
    assert int(found.stdout) == score


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PermissionError(13, "Permission denied"), "lowering it needs CAP_SYS_RESOURCE"),
        (OSError(30, "Read-only file system"), "Read-only file system"),
    ],
)
def test_oom_score_that_cannot_be_applied_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: OSError, why: str
) -> None:
    def rejected(path: Path, text: str) -> int:
        assert (str(path), text) == (f"/proc/{os.getpid()}/oom_score_adj", "-999")
        raise error

    monkeypatch.setattr(Path, "write_text", rejected)
    with caplog.at_level(logging.WARNING):
        run._set_oom_score(-999)
    (record,) = caplog.records
    assert record.getMessage() == "oomScoreAdj not applied"
    assert why in record.__dict__["error"]
