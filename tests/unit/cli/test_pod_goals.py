"""Progress of pods towards the goal that a command waits for: reached, still possible, or missed."""

from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.cli.plan.pod_goals import Progress, completed, deleted, parse_goal, ready, reason_of, settled
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)


def _pod(phase: str = "Running", *, is_ready: bool = False, state: ContainerState | None = None) -> Pod:
    conditions = (PodCondition(type="Ready", status="True" if is_ready else "False"),)
    containers = (ContainerStatus(name="a", ready=is_ready, restart_count=0, state=state or ContainerState()),)
    return Pod(status=PodStatus(phase=phase, conditions=conditions, container_statuses=containers))


def _item(pod: Pod | None) -> Any:
    """The pod as the agent's answers have it."""
    return None if pod is None else to_builtins(pod)


CRASHING = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff", message="back-off 10s"))


@pytest.mark.parametrize(
    ("goal", "pod", "progress"),
    [
        (ready, None, Progress.PENDING),
        (ready, _pod(), Progress.PENDING),
        (ready, _pod(is_ready=True), Progress.REACHED),
        (ready, _pod("Succeeded"), Progress.MISSED),
        (settled, _pod("Succeeded"), Progress.REACHED),
        (settled, _pod("Failed"), Progress.MISSED),
        (completed, _pod(is_ready=True), Progress.PENDING),
        (completed, _pod("Succeeded"), Progress.REACHED),
        (completed, _pod("Failed"), Progress.MISSED),
        (completed, None, Progress.PENDING),
        (deleted, None, Progress.REACHED),
        (deleted, _pod("Succeeded"), Progress.PENDING),
        (parse_goal("condition=Ready"), _pod(is_ready=True), Progress.REACHED),
        (parse_goal("condition=ready=false"), _pod(), Progress.REACHED),
        (parse_goal("condition=Ready=False"), _pod(is_ready=True), Progress.PENDING),
        (parse_goal("create"), None, Progress.PENDING),
        (parse_goal("create"), _pod("Pending"), Progress.REACHED),
        (parse_goal("jsonpath={.status.phase}=Running"), _pod(), Progress.REACHED),
        (parse_goal("jsonpath='{.status.phase}'=Running"), _pod("Pending"), Progress.PENDING),
        (parse_goal("jsonpath={.status.containerStatuses[0].name}"), _pod(), Progress.REACHED),
        (parse_goal("jsonpath={.status.containerStatuses[1].name}"), _pod(), Progress.PENDING),
        (parse_goal("jsonpath={.status.podIP}"), _pod(), Progress.PENDING),
    ],
)
def test_progress_towards_a_goal_follows_the_pod(goal: object, pod: Pod | None, progress: Progress) -> None:
    assert callable(goal)
    assert goal(_item(pod)).progress is progress


@pytest.mark.parametrize("text", ["", "running", "condition=", "condition", "jsonpath={.items[*]}", "jsonpath="])
def test_unknown_goals_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"ready, completed|name fields only"):
        parse_goal(text)


def test_reason_of_names_the_container_first() -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=3, reason="Error"))
    assert reason_of(_item(_pod(state=CRASHING))) == "container a: CrashLoopBackOff: back-off 10s"
    assert reason_of(_item(_pod("Failed", state=ended))) == "container a: Error, exit code 3"
    assert reason_of(_item(Pod(status=PodStatus(phase="Failed", reason="Evicted", message="disk")))) == "Evicted: disk"
    assert reason_of(_item(_pod())) == "phase Running, not ready: a"
