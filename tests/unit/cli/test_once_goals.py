"""Outcome of a pod that runs once: its exit status, the containers with a log, and reasons that leave no hope."""

import pytest

from pykubelet.cli.plan.once_goals import exit_status, hopeless, started_containers
from pykubelet.models.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)


def _ended(code: int) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code))


def _waiting(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason, message="why"))


def _pod(phase: str, *states: ContainerState, last: ContainerState | None = None, ran: bool = True) -> Pod:
    statuses = tuple(
        ContainerStatus(
            name=f"c{index}",
            ready=False,
            restart_count=0,
            state=state,
            last_state=last,
            container_id="runtime://1" if ran else "",
        )
        for index, state in enumerate(states)
    )
    return Pod(status=PodStatus(phase=phase, init_container_statuses=statuses[:1], container_statuses=statuses[1:]))


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        (_pod("Succeeded", _ended(0), _ended(0)), 0),
        (_pod("Failed", _ended(0), _ended(0), _ended(3), _ended(4)), 3),
        (_pod("Failed", _ended(5), _waiting("PodInitializing")), 5),
        (_pod("Failed"), 1),
    ],
)
def test_exit_status_is_that_of_the_first_failed_container(pod: Pod, status: int) -> None:
    assert exit_status(pod) == status


def test_started_containers_have_a_log() -> None:
    running = ContainerState(running=ContainerStateRunning())
    pod = _pod("Running", _ended(0), running, _waiting("ContainerCreating"))
    assert started_containers(pod) == ["c0", "c1"]
    assert started_containers(_pod("Running", _waiting("CrashLoopBackOff"), last=_ended(1))) == ["c0"]
    assert started_containers(_pod("Failed", _ended(137), ran=False)) == []


def test_hopeless_names_the_reason() -> None:
    assert hopeless(_pod("Pending", _ended(0), _waiting("ImagePullBackOff"))) == "container c1: ImagePullBackOff: why"
    assert hopeless(_pod("Pending", _ended(0), _waiting("ContainerCreating"))) == ""
    assert hopeless(_pod("Running", _ended(0), _waiting("CrashLoopBackOff"))) == ""
