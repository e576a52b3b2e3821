"""``make run``: when the demo's pods count as started."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tools.demo as demo
from pykubelet.cli.client.local_api import LocalApi


def _pod(phase: str, *, running: bool) -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if running else ended
    status = {"name": "web", "ready": running, "restartCount": 0, "image": "i", "imageID": "", "state": state}
    return {
        "metadata": {"name": "demo", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "web", "image": "i"}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


class _Api(LocalApi):
    """An agent with these pods, one after the other."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        super().__init__("/none")
        self.pods = list(pods)

    def get(self, path: str, **query: object) -> Any:
        return {"items": [self.pods.pop(0)]}


@pytest.mark.parametrize(
    ("pods", "looks"),
    [
        ((_pod("Running", running=True),), 1),
        ((_pod("Succeeded", running=False),), 1),
        ((_pod("Running", running=False), _pod("Running", running=True)), 2),
    ],
    ids=["running", "ended for good", "containers that ended and are started again"],
)
def test_pods_have_started_when_they_run_or_have_ended_for_good(pods: tuple[dict[str, Any], ...], looks: int) -> None:
    api = _Api(*pods, *([_pod("Failed", running=False)] * 3))
    demo._wait_until_settled(api)
    assert len(api.pods) == len(pods) + 3 - looks


TWICE = """
import os, signal, tools.demo as demo
class Kubelet:
    def start(self, wait):
        try:
            os.kill(os.getpid(), {first})
        except KeyboardInterrupt:
            os.kill(os.getpid(), {second})
            raise
demo.os.geteuid = lambda: 0
demo.agent, demo.runtime = Kubelet, __import__("unittest.mock").mock.MagicMock()
demo._end_agent = lambda: print("agent ended")
raise SystemExit(demo.up())
"""


@pytest.mark.parametrize(("first", "second"), [(signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM)])
def test_second_signal_does_not_interrupt_the_end(first: int, second: int, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", TWICE.format(first=int(first), second=int(second))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("agent ended") == 2, "before the start, and at the end"
