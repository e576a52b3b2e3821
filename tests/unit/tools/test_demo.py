"""``make run``: when the demo's pods count as started."""

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
