"""Commands wait for every pod, whatever the pods' names are."""

from collections.abc import Iterator
from typing import Any

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.cli.changes.pod_wait import AwaitedPod, by_uid, wait_for_pods
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.pod_goals import deleted, settled

FIRST = AwaitedPod("pod/web", by_uid("1"), settled, "condition met", "one")
SECOND = AwaitedPod("pod/web", by_uid("2"), settled, "condition met", "two")


def _pod(uid: str, phase: str) -> dict[str, Any]:
    return {"metadata": {"name": "web", "uid": uid}, "status": {"phase": phase}}


class _Api(LocalApi):
    """An agent with these events; after them the time limit has passed."""

    def __init__(self, *events: tuple[str, dict[str, Any]], ends: bool = False) -> None:
        super().__init__("/none")
        self.events = list(events)
        self.ends = ends

    def watch(self, path: str, deadline: float | None = None, /, **query: object) -> Iterator[tuple[str, Any]]:
        while self.events:
            yield self.events.pop(0)
        if not self.ends:
            raise TimeoutError


LISTED = ("BOOKMARK", dict[str, Any]())


def test_wait_for_pods_of_one_name_in_two_namespaces_waits_for_both(capsys: pytest.CaptureFixture[str]) -> None:
    events = [("ADDED", _pod("2", "Succeeded")), ("ADDED", _pod("1", "Pending")), LISTED]
    api = _Api(*events, ("MODIFIED", _pod("1", "Succeeded")), ("DELETED", _pod("1", "Succeeded")))
    wait_for_pods(api, [FIRST, SECOND], 1)
    assert [kind for kind, _ in api.events] == ["DELETED"]
    assert capsys.readouterr().out.splitlines() == [
        "pod/web in namespace two condition met",
        "pod/web in namespace one condition met",
    ]


def test_timeout_names_the_namespace_of_the_pod_that_is_late(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        wait_for_pods(_Api(("ADDED", _pod("2", "Succeeded")), LISTED), [FIRST, SECOND], 1)
    assert caught.value.code == 124
    message = "error: timed out waiting for pod/web in namespace one: the agent does not have the pod yet"
    assert capsys.readouterr().err.splitlines() == [message]


def test_namespace_is_not_shown_where_no_name_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    wait_for_pods(_Api(("ADDED", _pod("2", "Succeeded")), LISTED), [SECOND], 1)
    assert capsys.readouterr().out == "pod/web condition met\n"


def test_several_goals_of_one_pod_are_all_awaited() -> None:
    api = _Api(("ADDED", _pod("1", "Succeeded")), LISTED, ("DELETED", _pod("1", "Succeeded")))
    wait_for_pods(
        api, [AwaitedPod("pod/web", by_uid("1"), deleted), FIRST, AwaitedPod("pod/web", by_uid("2"), deleted)], 1
    )
    assert api.events == []


def test_end_of_the_agent_names_every_pod_that_is_awaited() -> None:
    with pytest.raises(Permanent, match="nothing is known of pod/web in namespace one, pod/web in namespace two"):
        wait_for_pods(_Api(LISTED, ends=True), [FIRST, SECOND], 1)
