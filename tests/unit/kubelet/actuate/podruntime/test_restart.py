"""Restart counts, restart rules, and which attempt represents a container."""

import pytest

from pykubelet.kubelet.actuate.podruntime.plan.restart import (
    current,
    next_restart_count,
    should_start,
)
from pykubelet.kubelet.types.restart import restarts_after_exit
from pykubelet.kubelet.types.runtime import ContainerStatus
from tests.unit.kubelet.actuate.podruntime.build import (
    CREATED,
    DONE,
    EXITED,
    FAILED,
    RUNNING,
    UNKNOWN,
    Fields,
    at,
    pod_of,
    state_of,
)


@pytest.mark.parametrize(
    ("attempts", "from_logs", "count"),
    [
        ((), 0, 0),
        ((), 4, 4),
        ((at("app", **FAILED),), 9, 1),
        ((at("app", state=CREATED),), 9, 0),
        ((at("app", state=UNKNOWN, restart_count=2),), 0, 3),
        ((at("app", restart_count=2),), 0, 3),
        ((at("app", restart_count=2, **FAILED), at("app", state=CREATED, restart_count=3)), 0, 3),
        ((at("app", restart_count=5, **FAILED, created_at=1.0), at("app", state=CREATED, restart_count=0)), 0, 6),
        ((at("other", restart_count=7),), 1, 1),
    ],
)
def test_next_restart_count(attempts: tuple[ContainerStatus, ...], from_logs: int, count: int) -> None:
    assert next_restart_count(state_of(pod_of(), *attempts), "app", from_logs) == count


@pytest.mark.parametrize("policy", ["", "Always", "OnFailure", "Never"])
@pytest.mark.parametrize("own", ["", "Always", "OnFailure", "Never"])
@pytest.mark.parametrize("code", [0, 1])
def test_restart_policy_decides_on_exit_code(policy: str, own: str, code: int) -> None:
    container: Fields = {"name": "app", "restartPolicy": own}
    pod = pod_of((container,), restartPolicy=policy)
    wanted = {"Always": True, "OnFailure": code != 0, "Never": False}[own or policy or "Always"]
    assert restarts_after_exit(pod, pod.spec.containers[0], code) is wanted


def test_first_matching_restart_rule_decides() -> None:
    rules = [
        {"action": "Nothing", "exitCodes": {"operator": "In", "values": [5]}},
        {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}},
    ]
    pod = pod_of(({"name": "app", "restartPolicy": "Never", "restartPolicyRules": rules},))
    app = pod.spec.containers[0]
    assert [restarts_after_exit(pod, app, code) for code in (0, 5, 6)] == [False, False, True]


@pytest.mark.parametrize("state", [CREATED, RUNNING, EXITED, UNKNOWN, None])
def test_deleted_pod_starts_no_container(state: object) -> None:
    pod = pod_of(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    attempt = None if state is None else at("app", state=state)
    assert not should_start(pod, pod.spec.containers[0], attempt)


@pytest.mark.parametrize(
    ("attempt", "policy", "starts"),
    [
        (None, "Never", True),
        (at("app", state=CREATED), "Never", True),
        (at("app", state=UNKNOWN), "Never", True),
        (at("app", state=RUNNING), "Always", False),
        (at("app", **FAILED), "Always", True),
        (at("app", **FAILED), "Never", False),
    ],
)
def test_container_is_started_unless_it_runs_or_has_ended_for_good(
    attempt: ContainerStatus | None, policy: str, starts: bool
) -> None:
    pod = pod_of(restartPolicy=policy)
    assert should_start(pod, pod.spec.containers[0], attempt) is starts


def test_current_prefers_the_running_attempt() -> None:
    old = at("app", sandbox_id="s0", **DONE)
    runs = at("app", restart_count=1)
    leftover = at("app", state=CREATED, restart_count=2)
    status = state_of(pod_of(), old, runs, leftover)
    assert current(status, "app") is runs
    assert current(status, "app", old.sandbox_id) is old
    assert current(state_of(pod_of(), old, leftover), "app") is leftover
    assert current(status, "unknown") is None
