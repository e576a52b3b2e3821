"""``pykubelet run``: the agent's own process."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.cli.arguments.kubelet_flags import FIELDS
from pykubelet.cli.commands.node import run
from pykubelet.kubelet.config.plan.field_effects import SECRET_VALUES

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


_LIMIT = """
import logging, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (500, 1000))
from pykubelet.base.proc import detach
from pykubelet.cli.commands.node.run import _limit_open_files
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
fifo = sys.argv[1]
for wanted in (300, 1 << 62, 2000):
    _limit_open_files(wanted)
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    daemon = detach(["/bin/sh", "-c", "read line < $0", fifo], log=Path(fifo + ".log"), env={})
    print(*resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE))
    Path(fifo).write_text("end")
    daemon.forget()
"""
_CAP_SYS_RESOURCE = 1 << 24


def test_open_files_of_the_configuration_are_the_limit_of_the_agent_but_not_of_its_runtime_server(
    tmp_path: Path,
) -> None:
    """More than the hard limit needs a capability; more than the kernel allows for any process is never possible."""
    os.mkfifo(tmp_path / "fifo")
    command = [sys.executable, "-c", _LIMIT, str(tmp_path / "fifo")]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    status = Path("/proc/self/status").read_text()
    capable = int(status.partition("CapEff:")[2].split()[0], 16) & _CAP_SYS_RESOURCE
    more = ["2000 2000"] if capable else ["maxOpenFiles limited", "1000 1000"]
    began = "500 1000"
    assert found == ["300 1000", began, "maxOpenFiles limited", "1000 1000", began, *more, began]


def test_names_of_flags_may_have_underscores() -> None:
    """As in the Go kubelet, whose flags of cAdvisor are known by such names."""
    context = run.command.make_context("run", ["--max_pods=7", "--housekeeping_interval=5m", "--lock_file=/a_b"])
    values = (context.params[name] for name in ("kubelet_max_pods", "kubelet_housekeeping_interval", "lock_file"))
    assert tuple(values) == ("7", "5m", Path("/a_b"))


def test_flags_are_shown_as_texts_and_secret_ones_masked() -> None:
    secret = [flag for flag, (_, field) in FIELDS.items() if field in SECRET_VALUES]
    given = ["--node-ip=192.0.2.1", "--node-ip=2001:db8::1", "--fail-swap-on=false"]
    with run.command.make_context("run", [*given, *(f"--{flag}=A:b" for flag in secret)]):
        shown = run._shown_flags()
    assert {flag: shown[flag] for flag in secret} == {"manifest-url-header": "<masked>"}
    assert shown["node-ip"] == "192.0.2.1,2001:db8::1"
    with run.command.make_context("run", ["--manifest-url=https://me:pa55word@host/pods?a=b"]):
        assert run._shown_flags()["manifest-url"] == "https://host/pods?a=b"
    assert (shown["fail-swap-on"], shown["kubeconfig"], shown["storage-driver-password"]) == ("false", "", "")
