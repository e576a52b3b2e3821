"""The conditions of a pod, one by one."""

from collections.abc import Sequence

import pytest

from pykubelet.kubelet.report.status.plan import conditions as cond
from pykubelet.kubelet.types.resources.resize import PendingResize, ResizeProgress, ResizeReason, ResizeState
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, attempt, container, exited, pod, runtime, sandbox, sidecar


def status(name: str, word: str = "") -> core.ContainerStatus:
    """A status from words: ``ready``, ``started``, ``run``, ``end``."""
    state = None
    if "run" in word:
        state = core.ContainerState(running=core.ContainerStateRunning())
    elif "end" in word:
        state = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=0))
    return core.ContainerStatus(
        name=name, ready="ready" in word, started="started" in word, restart_count=0, state=state
    )


def by_name(*statuses: core.ContainerStatus) -> dict[str, core.ContainerStatus]:
    return {s.name: s for s in statuses}


def said(condition: core.PodCondition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


@pytest.mark.parametrize(
    ("statuses", "phase", "expected"),
    [
        ((), "Pending", ("False", "UnknownContainerStatuses", "")),
        ((status("a", "ready"), status("b", "ready")), "Running", ("True", "", "")),
        (
            (status("a", "ready"), status("b")),
            "Running",
            ("False", "ContainersNotReady", "containers with unready status: [b]"),
        ),
        (
            (status("a"), status("b")),
            "Pending",
            ("False", "ContainersNotReady", "containers with unready status: [a b]"),
        ),
        ((status("a", "ready"),), "Running", ("False", "ContainersNotReady", "containers with unknown status: [b]")),
        (
            (status("a"),),
            "Succeeded",
            ("False", "ContainersNotReady", "containers with unknown status: [b], containers with unready status: [a]"),
        ),
        ((status("a"), status("b")), "Succeeded", ("False", "PodCompleted", "")),
        ((status("a", "ready"), status("b", "ready")), "Failed", ("False", "PodFailed", "")),
        ((status("a"),), "Failed", ("False", "PodFailed", "")),
    ],
)
def test_containers_ready_condition_names_unready_containers(
    statuses: Sequence[core.ContainerStatus], phase: str, expected: tuple[str, str, str]
) -> None:
    value = pod(container("a"), container("b"))
    containers = cond.containers_ready(value, by_name(*statuses), phase)
    assert containers.type == "ContainersReady"
    assert said(containers) == expected
    ready = cond.pod_ready(value, containers, ())
    assert (ready.type, *said(ready)) == ("Ready", *expected)


def test_sidecars_have_to_be_ready_and_init_containers_do_not() -> None:
    value = pod(container("a"), init=[container("i"), sidecar("s")])
    ready = status("a", "ready")
    assert cond.containers_ready(value, by_name(ready, status("s", "ready")), "Running").status == "True"
    got = cond.containers_ready(value, by_name(ready, status("s"), status("i")), "Running")
    assert got.message == "containers with unready status: [s]"


@pytest.mark.parametrize(
    ("others", "status_", "message"),
    [
        ([], "False", 'corresponding condition of pod readiness gate "lb" does not exist.'),
        (["False"], "False", 'the status of pod readiness gate "lb" is not "True", but False'),
        (["True"], "True", ""),
    ],
)
def test_readiness_gate_keeps_the_pod_unready_until_it_is_true(others: list[str], status_: str, message: str) -> None:
    value = pod(readiness_gates=(core.PodReadinessGate(condition_type="lb"),))
    containers = cond.containers_ready(value, by_name(status("app", "ready")), "Running")
    got = cond.pod_ready(value, containers, [core.PodCondition(type="lb", status=s) for s in others])
    assert said(got) == (status_, "ReadinessGatesNotReady" if message else "", message)


@pytest.mark.parametrize(
    ("statuses", "phase", "before", "expected"),
    [
        ((), "Pending", (), ("False", "UnknownContainerStatuses", "")),
        (
            (status("i"), status("s"), status("app")),
            "Pending",
            (),
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]"),
        ),
        (
            (status("i", "ready end"), status("s", "run"), status("app")),
            "Pending",
            (),
            ("False", "ContainersNotInitialized", "containers with incomplete status: [s]"),
        ),
        (
            (status("i", "ready end"), status("app")),
            "Pending",
            (),
            ("False", "ContainersNotInitialized", "containers with unknown status: [s]"),
        ),
        ((status("i", "ready end"), status("s", "run started"), status("app")), "Pending", (), ("True", "", "")),
        ((status("i"), status("s"), status("app", "run")), "Running", (), ("True", "", "")),
        ((status("i"), status("s"), status("app", "end")), "Running", (), ("True", "", "")),
        ((status("i"), status("s"), status("app")), "Pending", ("True",), ("True", "", "")),
        (
            (status("i"), status("s"), status("app")),
            "Pending",
            ("False",),
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]"),
        ),
        ((status("i"), status("s"), status("app", "end")), "Succeeded", (), ("True", "PodCompleted", "")),
    ],
)
def test_initialized_condition_waits_for_init_containers(
    statuses: Sequence[core.ContainerStatus],
    phase: str,
    before: tuple[str, ...],
    expected: tuple[str, str, str],
) -> None:
    value = pod(init=[container("i"), sidecar("s")])
    known = [core.PodCondition(type="Initialized", status=s) for s in before]
    assert said(cond.initialized(value, by_name(*statuses), phase, known)) == expected


def test_a_pod_without_init_containers_is_initialized() -> None:
    assert said(cond.initialized(pod(), {}, "Pending", ())) == ("True", "", "")


@pytest.mark.parametrize(
    ("seen", "host_network", "expected"),
    [
        (runtime(sandboxes=[]), False, "False"),
        (runtime(), False, "True"),
        (runtime(sandboxes=[sandbox(ready=False)]), False, "False"),
        (runtime(sandboxes=[sandbox(), sandbox("old", ready=False)]), False, "True"),
        (runtime(sandboxes=[sandbox(), sandbox("old")]), False, "False"),
        (runtime(sandboxes=[sandbox(ready=False), sandbox("old")]), False, "False"),
        (runtime(sandboxes=[sandbox(ips=())]), False, "False"),
        (runtime(sandboxes=[sandbox(ips=(), host_network=True)]), True, "True"),
        (runtime(sandboxes=[sandbox(ips=(), host_network=True)]), False, "False"),
        (runtime(), True, "False"),
    ],
)
def test_ready_to_start_containers(seen: PodRuntimeStatus, host_network: bool, expected: str) -> None:
    assert cond.ready_to_start(pod(host_network=host_network), seen).status == expected


def restart_all_pod() -> core.Pod:
    codes = core.ContainerRestartRuleOnExitCodes(operator="In", values=(88,))
    rule = core.ContainerRestartRule(action="RestartAllContainers", exit_codes=codes)
    return pod(container("a", restart_policy="Never", restart_policy_rules=(rule,)), container("b"))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (runtime(attempt("a")), False),
        (runtime(exited("a", 1)), False),
        (runtime(exited("a", 88)), True),
        (runtime(exited("b", 88)), False),
        (runtime(attempt("a", number=1), exited("a", 88)), False),
        (runtime(), False),
    ],
)
def test_restart_of_all_is_under_way_while_its_cause_is_there(seen: PodRuntimeStatus, expected: bool) -> None:
    assert cond.is_restarting_all(restart_all_pod(), seen, core.PodStatus()) is expected


@pytest.mark.parametrize(
    ("phase", "restarting", "expected"),
    [
        ("Running", False, ("False", "", "")),
        ("Running", True, ("True", "RestartAllContainersStarted", "container exited with restart policy rule")),
        ("Succeeded", True, ("False", "PodCompleted", "")),
        ("Failed", True, ("False", "PodFailed", "")),
    ],
)
def test_restarting_all_condition_exists_only_with_such_a_rule(
    phase: str, restarting: bool, expected: tuple[str, str, str]
) -> None:
    (got,) = cond.restarting_all(restart_all_pod(), phase, restarting=restarting)
    assert said(got) == expected
    assert cond.restarting_all(pod(), phase, restarting=restarting) == ()


def test_the_time_of_a_resize_condition_is_that_of_its_reason() -> None:
    old = time_from_unix(NOW - 500)
    before = [core.PodCondition(type="PodResizePending", status="True", reason="Deferred", last_transition_time=old)]
    for reason, since in (("Deferred", old), ("Infeasible", time_from_unix(NOW))):
        (found,) = cond.stamped(
            [core.PodCondition(type="PodResizePending", status="True", reason=reason)], before, 1, NOW
        )
        assert found.last_transition_time == since


def test_the_time_of_a_condition_is_that_of_its_status() -> None:
    old = time_from_unix(NOW - 500)
    before = [
        core.PodCondition(type="Ready", status="True", last_transition_time=old),
        core.PodCondition(type="Initialized", status="False", last_transition_time=old),
    ]
    now = [
        core.PodCondition(type="Ready", status="True"),
        core.PodCondition(type="Initialized", status="True"),
        core.PodCondition(type="PodScheduled", status="True"),
        core.PodCondition(type="foreign", status="True"),
        core.PodCondition(type="DisruptionTarget", status="True", last_transition_time=time_from_unix(NOW - 7)),
    ]
    got = {c.type: (c.last_transition_time, c.observed_generation) for c in cond.stamped(now, before, 4, NOW)}
    assert got == {
        "Ready": (old, 4),
        "Initialized": (time_from_unix(NOW), 4),
        "PodScheduled": (time_from_unix(NOW), 4),
        "foreign": (None, None),
        "DisruptionTarget": (time_from_unix(NOW - 7), 4),
    }


PENDING_RESIZE = PendingResize(generation=3, reason=ResizeReason.DEFERRED, message="1 CPU is free", since=NOW)


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        (ResizeState(), "Running", []),
        (
            ResizeState(pending=PENDING_RESIZE),
            "Running",
            [("PodResizePending", "True", "Deferred", "1 CPU is free", 3)],
        ),
        (ResizeState(progress=ResizeProgress(2)), "Running", [("PodResizeInProgress", "True", "", "", 2)]),
        (
            ResizeState(PENDING_RESIZE, ResizeProgress(2, "no cgroup")),
            "Pending",
            [
                ("PodResizePending", "True", "Deferred", "1 CPU is free", 3),
                ("PodResizeInProgress", "True", "Error", "no cgroup", 2),
            ],
        ),
        (ResizeState(PENDING_RESIZE, ResizeProgress(2)), "Succeeded", []),
        (ResizeState(PENDING_RESIZE, ResizeProgress(2)), "Failed", []),
    ],
)
def test_resize_is_reported_until_the_pod_has_ended(state: ResizeState, phase: str, expected: list[object]) -> None:
    found = cond.resizing(state, phase)
    assert [(c.type, *said(c), c.observed_generation) for c in found] == expected
