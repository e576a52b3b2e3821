"""The status of a pod as a whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.pod_status import compute_pod_status, disruption_target, rejected_status
from pykubelet.kubelet.report.status.status_types import TERMINAL, StatusContext
from pykubelet.kubelet.types.resources.resize import NOT_RESIZING, ResizeProgress, ResizeState
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, attempt, container, exited, pod, runtime, sandbox, with_meta
from tests.unit.kubelet.report.status.build import HOST, compute


def conditions(status: core.PodStatus) -> dict[str, str]:
    return {c.type: c.status for c in status.conditions}


def test_status_of_a_running_pod_has_all_fields() -> None:
    status = compute(with_meta(pod(init=[container("i0")]), generation=3), runtime(attempt(), exited("i0")))
    assert (status.phase, status.reason, status.message, status.qos_class) == ("Running", "", "", "BestEffort")
    assert (status.host_ip, [ip.ip for ip in status.host_ips]) == (HOST[0], list(HOST))
    assert (status.pod_ip, [ip.ip for ip in status.pod_ips]) == ("10.0.0.5", ["10.0.0.5"])
    assert (status.start_time, status.observed_generation) == (time_from_unix(NOW), 3)
    assert [c.name for c in status.container_statuses] == ["app"]
    assert [c.name for c in status.init_container_statuses] == ["i0"]
    assert [(c.type, c.status, c.observed_generation) for c in status.conditions] == [
        ("PodReadyToStartContainers", "True", 3),
        ("Initialized", "True", 3),
        ("Ready", "True", 3),
        ("ContainersReady", "True", 3),
        ("PodScheduled", "True", 3),
    ]


def test_new_pod_is_pending() -> None:
    status = compute(pod(), runtime(sandboxes=[]))
    assert (status.phase, status.pod_ip, status.pod_ips) == ("Pending", "", ())
    assert conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }


def test_computing_again_changes_nothing() -> None:
    seen = runtime(attempt())
    first = compute(pod(), seen)
    assert compute(pod(), seen, first, now=NOW + 60) == first


def test_the_time_of_a_transition_is_kept_and_renewed() -> None:
    first = compute(pod(), runtime(sandboxes=[]))
    second = compute(pod(), runtime(attempt()), first, now=NOW + 5)
    times = {c.type: c.last_transition_time for c in second.conditions}
    assert times["PodScheduled"] == times["Initialized"] == time_from_unix(NOW)
    assert times["Ready"] == times["ContainersReady"] == time_from_unix(NOW + 5)
    assert second.start_time == time_from_unix(NOW)


def test_start_time_is_that_of_the_agent_if_it_knows_it() -> None:
    context = StatusContext(now=NOW, previous=None, host_ips=HOST, terminating=False, started=NOW - 30)
    assert compute_pod_status(pod(), runtime(), context).start_time == time_from_unix(NOW - 30)


def test_start_time_is_that_of_the_api_server_if_the_last_status_has_none() -> None:
    seen = pod()
    seen = replace(seen, status=replace(seen.status, start_time=time_from_unix(NOW - 60)))
    previous = core.PodStatus(phase="Pending")
    context = StatusContext(now=NOW, previous=previous, host_ips=HOST, terminating=False, started=NOW - 30)
    assert compute_pod_status(seen, runtime(), context).start_time == time_from_unix(NOW - 60)


@pytest.mark.parametrize(
    ("resizing", "reported", "expected"),
    [(True, "1Gi", "1Gi"), (True, "", "2Gi"), (False, "1Gi", "2Gi"), (False, "", "2Gi")],
)
def test_resources_of_the_pod_are_those_before_a_resize_until_it_is_applied(
    resizing: bool, reported: str, expected: str
) -> None:
    wanted = pod(container(resources=core.ResourceRequirements(requests={"memory": "2Gi"})))
    before = core.ResourceRequirements(requests={"memory": reported}) if reported else None
    resize = ResizeState(progress=ResizeProgress(1)) if resizing else NOT_RESIZING
    previous = core.PodStatus(resources=before)
    context = StatusContext(now=NOW, previous=previous, host_ips=HOST, terminating=False, resize=resize)
    found = compute_pod_status(wanted, runtime(attempt()), context)
    assert found.resources is not None and found.resources.requests == {"memory": expected}
    assert found.allocated_resources["memory"] == "2Gi"


@pytest.mark.parametrize("phase", sorted(TERMINAL))
def test_a_terminal_phase_stays(phase: str) -> None:
    before = core.PodStatus(phase=phase, reason="Why", message="because")
    status = compute(pod(), runtime(attempt()), before)
    assert (status.phase, status.reason, status.message) == (phase, "Why", "because")
    status = compute(replace(pod(), status=before), runtime(attempt()))
    assert status.phase == phase
    status = compute(pod(), runtime(attempt()), before, terminal=("Evicted", ""))
    assert (status.phase, status.reason) == (phase, "Why")


def test_terminal_reason_of_the_agent_fails_the_pod() -> None:
    seen = runtime(attempt())
    status = compute(pod(), seen, terminal=("DeadlineExceeded", "too long"))
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")
    ready = next(c for c in status.conditions if c.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "PodFailed")
    later = compute(pod(), runtime(exited(code=0)), status, terminating=True)
    assert (later.phase, later.reason, later.message) == ("Failed", "DeadlineExceeded", "too long")


def test_the_reason_goes_with_its_phase() -> None:
    before = core.PodStatus(phase="Pending", reason="Slow", message="wait")
    assert compute(pod(), runtime(), before).reason == "Slow"
    assert compute(pod(), runtime(attempt()), before).reason == ""


def test_terminating_pod_is_ready_while_its_containers_run() -> None:
    """An EndpointSlice shows it as serving: the last endpoints of a Service get traffic until they end (KEP-1669)."""
    status = compute(pod(), runtime(attempt()), terminating=True)
    assert status.phase == "Running"
    assert conditions(status)["Ready"] == conditions(status)["ContainersReady"] == "True"
    status = compute(pod(container(), container("b")), runtime(attempt(), exited("b")), terminating=True)
    assert conditions(status)["Ready"] == conditions(status)["ContainersReady"] == "False"


def test_pod_that_the_agent_stops_for_the_node_is_ready_while_its_containers_run() -> None:
    first = compute(pod(), runtime(attempt()))
    status = compute(pod(), runtime(attempt()), first, terminating=True, terminal=("Evicted", "low"))
    assert status.phase == "Failed" and conditions(status)["Ready"] == conditions(status)["ContainersReady"] == "True"
    again = compute(pod(), runtime(attempt()), status, terminating=True, terminal=("Evicted", "low"))
    assert conditions(again)["Ready"] == "True"
    ended = compute(pod(), runtime(exited(code=1)), again, terminating=True, terminal=("Evicted", "low"))
    reasons = {c.type: c.reason for c in ended.conditions if c.status == "False"}
    assert reasons["Ready"] == reasons["ContainersReady"] == "PodFailed"


@pytest.mark.parametrize(("code", "expected"), [(0, "Succeeded"), (1, "Failed")])
def test_a_stopped_pod_of_the_api_server_ends(code: int, expected: str) -> None:
    status = compute(pod(static=False), runtime(exited(code=code)), terminating=True)
    assert status.phase == expected


def test_a_pod_with_a_lost_container_never_succeeds() -> None:
    value = pod(restart_policy="Never", static=False)
    running = compute(value, runtime(attempt()))
    lost = compute(value, runtime(sandboxes=[]), running, terminating=True)
    assert lost.phase == "Failed"
    unknown = compute(value, runtime(attempt(state=ContainerState.UNKNOWN, started=False)), running)
    assert unknown.phase == "Failed"


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ips", "hosts", "expected"),
    [
        (["10.0.0.5"], HOST, ["10.0.0.5"]),
        (["fd00::5", "10.0.0.5"], HOST, ["10.0.0.5", "fd00::5"]),
        (["10.0.0.5", "fd00:0:0::5"], HOST[::-1], ["fd00::5", "10.0.0.5"]),
        (["10.0.0.5", "10.0.0.6", "fd00::5"], HOST, ["10.0.0.5", "fd00::5"]),
        (["fd00::5"], (), ["fd00::5"]),
        (["fd00::5", "10.0.0.5"], (), ["10.0.0.5", "fd00::5"]),
        (["rubbish", "10.0.0.5"], (), ["10.0.0.5"]),
        ([], HOST, []),
    ],
)
def test_pod_ips_begin_with_the_family_of_the_node(ips: list[str], hosts: tuple[str, ...], expected: list[str]) -> None:
    status = compute(pod(), runtime(sandboxes=[sandbox(ips=ips)]), host_ips=hosts)
    assert [ip.ip for ip in status.pod_ips] == expected
    assert status.pod_ip == (expected[0] if expected else "")


def test_a_pod_keeps_its_ips_when_its_sandbox_has_ended() -> None:
    first = compute(pod(), runtime(attempt()))
    ended = compute(pod(), runtime(exited(), sandboxes=[sandbox(ready=False)]), first)
    assert ended.pod_ip == "10.0.0.5"
    renewed = compute(pod(), runtime(sandboxes=[sandbox("sb1", ips=["10.0.0.9"])]), ended)
    assert renewed.pod_ip == "10.0.0.9"
    assert compute(pod(), runtime(sandboxes=[sandbox("sb1", ips=[])]), ended).pod_ip == ""


@pytest.mark.parametrize(
    ("before", "hosts", "expected"),
    [
        ([], HOST, list(HOST)),
        ([], HOST[:1], [HOST[0]]),
        ([], (*HOST, "192.0.2.2"), list(HOST)),
        ([], (), []),
        ([HOST[0]], HOST, list(HOST)),
        (["192.0.2.77"], HOST, ["192.0.2.77", HOST[1]]),
        (["2001:db8::7"], HOST, ["2001:db8::7"]),
        (["192.0.2.77", "2001:db8::7"], HOST, ["192.0.2.77", "2001:db8::7"]),
    ],
)
def test_a_pod_on_the_hosts_network(before: Sequence[str], hosts: tuple[str, ...], expected: list[str]) -> None:
    previous = core.PodStatus(pod_ips=tuple(core.PodIP(ip=ip) for ip in before))
    seen = runtime(attempt(), sandboxes=[sandbox(ips=(), host_network=True)])
    status = compute(pod(host_network=True), seen, previous, host_ips=hosts)
    assert [ip.ip for ip in status.pod_ips] == expected


def test_host_ips_stay_when_they_are_not_known_any_more() -> None:
    first = compute(pod(), runtime())
    assert compute(pod(), runtime(), first, host_ips=()).host_ips == first.host_ips


# -- conditions of others ---------------------------------------------------------------------------------------------


def test_conditions_of_others_are_kept_and_gate_readiness() -> None:
    gate = core.PodCondition(type="lb.test/up", status="False")
    stale = core.PodCondition(type="Ready", status="True", message="from the API")
    value = pod(readiness_gates=(core.PodReadinessGate(condition_type="lb.test/up"),))
    status = compute(replace(value, status=core.PodStatus(conditions=(gate, stale))), runtime(attempt()))
    assert status.conditions[0] == gate
    assert (conditions(status)["Ready"], conditions(status)["ContainersReady"]) == ("False", "True")
    assert [c.type for c in status.conditions].count("Ready") == 1


def test_the_disruption_target_comes_in_and_stays() -> None:
    given_ = core.PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")
    first = compute(pod(), runtime(attempt()), disruption=given_, terminal=("Evicted", ""))
    assert conditions(first)["DisruptionTarget"] == "True"
    later = compute(pod(), runtime(exited()), first, now=NOW + 9)
    (kept,) = [c for c in later.conditions if c.type == "DisruptionTarget"]
    assert (kept.reason, kept.last_transition_time) == ("TerminationByKubelet", time_from_unix(NOW))


def test_the_observed_generation_never_goes_down() -> None:
    first = compute(with_meta(pod(), generation=5), runtime())
    assert compute(with_meta(pod(), generation=4), runtime(), first).observed_generation == 5
    assert compute(pod(), runtime()).observed_generation is None


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1000m", "memory": "1024Mi"}, "Guaranteed"),
    ],
)
def test_the_qos_class_is_computed_once(requests: dict[str, str], limits: dict[str, str], expected: str) -> None:
    resources = core.ResourceRequirements(requests=dict(requests), limits=dict(limits))
    status = compute(pod(container(resources=resources)), runtime())
    assert status.qos_class == expected
    assert compute(pod(), runtime(), status).qos_class == expected


def test_status_of_a_rejected_pod_is_failed_with_the_reason() -> None:
    status = rejected_status(with_meta(pod(), generation=2), "OutOfcpu", "Node didn't have enough resource: cpu", NOW)
    assert status == core.PodStatus(
        phase="Failed",
        reason="OutOfcpu",
        message="Pod was rejected: Node didn't have enough resource: cpu",
        qos_class="BestEffort",
        start_time=time_from_unix(NOW),
        observed_generation=2,
    )


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([*ContainerState, None]), st.integers(0, 3), st.sampled_from([0, 1, 137]), st.booleans()
        ),
        max_size=8,
    ),
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    static=st.booleans(),
)
def test_computed_statuses_only_move_forward(
    steps: list[tuple[ContainerState | None, int, int, bool]], policy: str, static: bool
) -> None:
    value = pod(restart_policy=policy, static=static)
    previous: core.PodStatus | None = None
    for state, number, code, terminating in steps:
        attempts = () if state is None else (attempt(state=state, number=number, exit_code=code),)
        status = compute(value, runtime(*attempts), previous, terminating=terminating)
        if previous is not None:
            assert status.container_statuses[0].restart_count >= previous.container_statuses[0].restart_count
            assert status.start_time == previous.start_time
            if previous.phase in TERMINAL:
                assert status.phase == previous.phase
        if status.phase == "Succeeded" and (previous is None or previous.phase != "Succeeded"):
            ended = status.container_statuses[0].state
            assert ended is not None and ended.terminated is not None and ended.terminated.exit_code == 0
        previous = status


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Preempting", "Pod was preempted by Kubelet to accommodate a critical pod."),
        ("Evicted", "too big"),
        ("Terminated", "too big"),
        ("DeadlineExceeded", None),
        ("", None),
    ],
)
def test_pods_ended_for_the_nodes_sake_are_disruption_targets(reason: str, message: str | None) -> None:
    found = disruption_target(reason, "too big")
    assert (found.message if found else None) == message
    if found:
        assert (found.type, found.status, found.reason) == ("DisruptionTarget", "True", "TerminationByKubelet")


def test_a_sidecar_that_restarts_all_does_not_fail_the_pod_meanwhile() -> None:
    """All containers are removed in one step: the next status computation finds none."""
    codes = core.ContainerRestartRuleOnExitCodes(operator="In", values=(42,))
    rule = core.ContainerRestartRule(action="RestartAllContainers", exit_codes=codes)
    cause = container("cause", restart_policy="Always", restart_policy_rules=(rule,))
    value = pod(init=[container("i0"), cause], restart_policy="Never")
    before = compute(value, runtime(attempt(), exited("i0"), exited("cause", 42)))
    assert (before.phase, conditions(before)["AllContainersRestarting"]) == ("Running", "True")
    for _ in range(2):
        before = compute(value, runtime(), before)
        counts = {s.name: s.restart_count for s in (*before.init_container_statuses, *before.container_statuses)}
        assert (before.phase, conditions(before)["AllContainersRestarting"]) == ("Running", "True")
        assert counts == {"i0": 1, "cause": 0, "app": 1}
    state = before.init_container_statuses[1].state
    assert state is not None and state.terminated is not None and state.terminated.exit_code == 42
    again = compute(value, runtime(attempt(number=1), exited("i0", number=1), attempt("cause", number=1)), before)
    assert (again.phase, conditions(again)["AllContainersRestarting"]) == ("Running", "False")
