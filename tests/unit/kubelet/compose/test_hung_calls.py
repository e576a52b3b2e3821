"""The owner of a pod gets an event about blocking calls that hang."""

import pytest

from pykubelet.base.concurrency.thread_calls import HungCall
from pykubelet.kubelet.compose.adapters import HungCalls
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.control.fakes import make_pod


class _Events:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.seen.append(f"{pod} {event_type} {reason}: {message}")


@pytest.mark.parametrize(
    ("owner", "reported"),
    [("pod/a", "work on files of the pod has"), ("pod/a/volumes", "work on volumes of the pod has")],
)
def test_hung_call_of_a_pod_gives_it_a_warning(owner: str, reported: str) -> None:
    events, pods = _Events(), {PodUID("a"): make_pod("a")}
    HungCalls(pods.get, events)(HungCall(owner, "remove_tree", 120.0))
    (event,) = events.seen
    assert "Warning FailedSync: error syncing the pod: " in event
    assert reported in event
    assert "120 s" in event


@pytest.mark.parametrize("owner", ["pod/gone", "images", "volume/a", "pod"])
def test_hung_call_of_anything_else_gives_no_event(owner: str) -> None:
    events: _Events = _Events()
    pods: dict[PodUID, Pod] = {PodUID("a"): make_pod("a")}
    HungCalls(pods.get, events)(HungCall(owner, "listdir", 5.0))
    assert events.seen == []
