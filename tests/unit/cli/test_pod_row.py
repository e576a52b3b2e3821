"""The STATUS column, by the rules of kubectl."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.cli.plan.pod_row import pod_row, pod_status_word
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import to_builtins
from pykubelet.models.meta_v1 import ObjectMeta

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = core.ContainerState(running=core.ContainerStateRunning(started_at=NOW))


def waiting(reason: str) -> core.ContainerState:
    return core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason))


def ended(code: int, reason: str = "", signal: int | None = None) -> core.ContainerState:
    return core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=code, reason=reason, signal=signal))


def status(
    name: str, state: core.ContainerState, ready: bool = False, started: bool | None = None, restarts: int = 0
) -> core.ContainerStatus:
    return core.ContainerStatus(name=name, state=state, ready=ready, started=started, restart_count=restarts)


def pod(
    phase: str,
    *containers: core.ContainerStatus,
    init: tuple[core.ContainerStatus, ...] = (),
    sidecars: tuple[str, ...] = (),
    ready: bool = False,
    initialized: bool = False,
    deleted: bool = False,
    reason: str = "",
) -> core.Pod:
    specs = tuple(core.Container(name=c.name, restart_policy="Always" if c.name in sidecars else "") for c in init)
    true = {"Ready": ready, "Initialized": initialized}
    conditions = tuple(core.PodCondition(type=name, status="True") for name, holds in true.items() if holds)
    return core.Pod(
        metadata=ObjectMeta(
            name="p", namespace="ns", creation_timestamp=NOW, deletion_timestamp=NOW if deleted else None
        ),
        spec=core.PodSpec(
            init_containers=specs, containers=tuple(core.Container(name=c.name) for c in containers), node_name="n"
        ),
        status=core.PodStatus(
            phase=phase,
            reason=reason,
            conditions=conditions,
            container_statuses=containers,
            init_container_statuses=init,
            pod_ip="10.0.0.1",
        ),
    )


def item_of(given: core.Pod) -> dict[str, Any]:
    """Return the pod as the agent sends it."""
    item = to_builtins(given)
    assert isinstance(item, dict)
    return item


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (pod("Pending", status("a", waiting("ContainerCreating"))), "ContainerCreating"),
        (pod("Running", status("a", RUNNING, ready=True)), "Running"),
        (pod("Running", status("a", waiting("CrashLoopBackOff"))), "CrashLoopBackOff"),
        (pod("Running", status("a", RUNNING, ready=True), status("b", waiting("ErrImagePull"))), "ErrImagePull"),
        (pod("Succeeded", status("a", ended(0, "Completed"))), "Completed"),
        (pod("Failed", status("a", ended(3, "Error"))), "Error"),
        (pod("Failed", status("a", ended(137, signal=9))), "Signal:9"),
        (pod("Failed", status("a", ended(3))), "ExitCode:3"),
        (pod("Failed", reason="DeadlineExceeded"), "DeadlineExceeded"),
        (pod("Running", status("a", ended(0, "Completed")), status("b", RUNNING, ready=True), ready=True), "Running"),
        (pod("Running", status("a", ended(0, "Completed")), status("b", RUNNING, ready=True)), "NotReady"),
        (pod("Pending", status("a", waiting("PodInitializing")), init=(status("i", RUNNING),)), "Init:0/1"),
        (
            pod("Pending", status("a", waiting("PodInitializing")), init=(status("i", ended(0)), status("j", RUNNING))),
            "Init:1/2",
        ),
        (pod("Pending", init=(status("i", waiting("CrashLoopBackOff")),)), "Init:CrashLoopBackOff"),
        (pod("Pending", init=(status("i", ended(1, "Error")),)), "Init:Error"),
        (
            pod(
                "Running",
                status("a", RUNNING, True),
                init=(status("s", RUNNING, started=True),),
                sidecars=("s",),
                ready=True,
            ),
            "Running",
        ),
        (
            pod(
                "Running",
                status("a", RUNNING, True),
                init=(status("s", waiting("CrashLoopBackOff")),),
                sidecars=("s",),
                initialized=True,
            ),
            "Init:CrashLoopBackOff",
        ),
        (
            pod(
                "Running",
                status("a", waiting("CrashLoopBackOff")),
                init=(status("s", waiting("Error")),),
                sidecars=("s",),
                initialized=True,
            ),
            "CrashLoopBackOff",
        ),
        (pod("Failed", status("a", ended(0, "Completed")), status("b", ended(3, "Error"))), "Error"),
        (pod("Running", status("a", RUNNING, ready=True), deleted=True), "Terminating"),
        (pod("Succeeded", status("a", ended(0, "Completed")), deleted=True), "Completed"),
    ],
)
def test_status_word_of_a_pod_is_that_of_kubectl(given: core.Pod, word: str) -> None:
    assert pod_status_word(item_of(given)) == word


def test_a_row_counts_ready_containers_and_restarts() -> None:
    given = pod(
        "Running",
        status("a", RUNNING, True, restarts=2),
        status("b", RUNNING),
        init=(status("i", ended(0), restarts=1),),
    )
    row = pod_row(item_of(given), NOW.timestamp() + 61)
    assert (row.namespace, row.name, row.ready, row.restarts, row.age_seconds) == ("ns", "p", "1/2", "2", 61)
    assert (row.ip, row.node) == ("10.0.0.1", "n")


def test_sidecars_count_as_containers_and_other_init_containers_while_they_run() -> None:
    """The rules of kubectl: restarts of init containers that have done their work are not counted."""
    sidecar = status("s", RUNNING, ready=True, started=True, restarts=4)
    running = pod(
        "Running",
        status("a", RUNNING, True, restarts=1),
        init=(status("i", ended(0), restarts=2), sidecar),
        sidecars=("s",),
        initialized=True,
    )
    row = pod_row(item_of(running), 0)
    assert (row.ready, row.restarts) == ("2/2", "5")
    starting = pod(
        "Pending",
        status("a", waiting("PodInitializing")),
        init=(sidecar, status("i", waiting("CrashLoopBackOff"), restarts=2)),
        sidecars=("s",),
    )
    row = pod_row(item_of(starting), 0)
    assert (row.ready, row.status, row.restarts) == ("1/2", "Init:CrashLoopBackOff", "6")
