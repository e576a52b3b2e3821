"""The status manager: keeping, notifying, forgetting."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.runtime import ContainerState, PodRuntimeStatus
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.statuses import SettableStatuses
from tests.unit.kubelet.report.pods import REF, attempt, container, exited, pod, runtime, sidecar, with_meta
from tests.unit.kubelet.report.status.build import Node

PROBE = core.Probe(exec=core.ExecAction(command=("true",)))


def known(
    runtime: PodRuntimeStatus, probes: Mapping[ContainerID, ContainerProbes] | None = None, **more: Any
) -> StatusInput:
    """Return the report of a worker."""
    return StatusInput(runtime, probes or {}, **more)


def manager() -> tuple[SettableStatuses, list[StatusChange]]:
    made = SettableStatuses(clock=VirtualClock(), node=Node())
    changes: list[StatusChange] = []
    made.subscribe(changes.append)
    return made, changes


def test_update_computes_keeps_and_notifies() -> None:
    statuses, changes = manager()
    value = pod(container(readiness_probe=PROBE))
    probes = {ContainerID("app-0"): ContainerProbes(readiness=ProbeResult.SUCCESS)}
    got = statuses.update(value, known(runtime(attempt()), probes))
    assert got == statuses.get(REF.uid)
    assert (got.phase, got.container_statuses[0].ready, got.host_ip) == ("Running", True, "192.0.2.1")
    assert [(c.previous, c.current, c.uid) for c in changes] == [(None, got, REF.uid)]
    entry = statuses.entry(REF.uid)
    assert entry is not None
    assert (entry.merged.status, entry.merged.spec, entry.version) == (got, value.spec, changes[0].version)
    assert entry.merged.metadata.creation_timestamp == got.start_time
    assert entry.merged.metadata.deletion_timestamp is None


def test_equal_status_is_no_change() -> None:
    statuses, changes = manager()
    value = pod()
    first = statuses.update(value, known(runtime(attempt())))
    assert statuses.update(value, known(runtime(attempt()))) == first
    assert len(changes) == 1
    statuses.update(with_meta(value, annotations={"a": "b"}), known(runtime(attempt())))
    assert len(changes) == 2, "a new pod object is a change"
    assert changes[1].version > changes[0].version


def test_only_failures_of_containers_become_waiting_reasons() -> None:
    statuses, _ = manager()
    failures: tuple[Failure, ...] = (
        Failure(SyncAction.CREATE_SANDBOX, "app", "CreatePodSandboxError", "no network"),
        Failure(SyncAction.KILL_CONTAINER, "app", "KillContainerError", "no"),
    )
    got = statuses.update(pod(), known(runtime(), failures=failures))
    assert got.container_statuses[0].state == core.ContainerState(
        waiting=core.ContainerStateWaiting(reason="ContainerCreating")
    )
    failures += (Failure(SyncAction.START_CONTAINER, "app", "ErrImagePull", "404"),)
    got = statuses.update(pod(), known(runtime(), failures=failures))
    assert got.container_statuses[0].state == core.ContainerState(
        waiting=core.ContainerStateWaiting(reason="ErrImagePull", message="404")
    )


def test_a_status_builds_on_the_one_before() -> None:
    statuses, _ = manager()
    statuses.update(pod(restart_policy="Never"), known(runtime(attempt(number=3))))
    got = statuses.update(pod(restart_policy="Never"), known(runtime(sandboxes=[])))
    last = got.container_statuses[0].last_state
    assert last is not None and last.terminated is not None
    assert (last.terminated.exit_code, got.container_statuses[0].restart_count) == (137, 4)


def test_set_status_only_moves_forward() -> None:
    statuses, changes = manager()
    statuses.set(pod(), core.PodStatus(phase="Failed", reason="Evicted"))
    got = statuses.set(pod(), core.PodStatus(phase="Running"))
    assert (got.phase, got.reason) == ("Failed", "Evicted")
    assert all(c.current is not None and c.current.phase == "Failed" for c in changes)


LIMITED: dict[str, Any] = {"terminal_reason": "Evicted", "terminal_message": "too big", "terminating": True}
EVICTED = {**LIMITED, "disruption_reason": "Evicted", "disruption_message": "too big"}


def shown(statuses: SettableStatuses) -> tuple[str, str, bool]:
    """Phase and reason that others see, and whether they see a DisruptionTarget."""
    entry = statuses.entry(REF.uid)
    assert entry is not None and entry.merged.status == entry.published
    types = {c.type for c in entry.published.conditions}
    return entry.published.phase, entry.published.reason, "DisruptionTarget" in types


@pytest.mark.parametrize("state", [ContainerState.RUNNING, ContainerState.CREATED, ContainerState.UNKNOWN])
def test_terminal_phase_is_withheld_until_no_container_can_run(state: ContainerState) -> None:
    statuses, changes = manager()
    value = pod(static=False)
    statuses.update(value, known(runtime(attempt())))
    assert statuses.update(value, known(runtime(attempt(state=state)), **EVICTED)).phase == "Failed"
    assert shown(statuses) == ("Running", "", False)
    assert [c.current.phase for c in changes if c.current is not None] == ["Running", "Running"]
    statuses.update(value, known(runtime(attempt(state=state)), stopped=True, **EVICTED))
    assert shown(statuses) == ("Failed", "Evicted", True)


def test_end_of_a_pod_is_published_once_its_last_container_has_exited() -> None:
    statuses, _ = manager()
    value = pod(container(), container("b"), restart_policy="Never", static=False)
    statuses.update(value, known(runtime(exited(), attempt("b"))))
    assert shown(statuses) == ("Running", "", False)
    statuses.update(value, known(runtime(exited(), exited("b"))))
    assert shown(statuses) == ("Succeeded", "", False)


def test_pod_whose_init_container_failed_is_pending_while_its_sidecar_runs() -> None:
    statuses, _ = manager()
    value = pod(init=[sidecar(), container("i")], restart_policy="Never", static=False)
    statuses.update(value, known(runtime(attempt("proxy"), attempt("i"))))
    seen = runtime(attempt("proxy"), exited("i", code=1))
    assert statuses.update(value, known(seen)).phase == "Failed"
    assert shown(statuses)[0] == "Pending"
    seen = runtime(exited("proxy"), exited("i", code=1))
    statuses.update(value, known(seen, terminating=True, stopped=True))
    assert shown(statuses)[0] == "Failed"


def test_disruption_set_by_others_is_shown_while_the_phase_is_withheld() -> None:
    theirs = core.PodCondition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")
    statuses, _ = manager()
    value = replace(pod(static=False), status=core.PodStatus(phase="Running", conditions=(theirs,)))
    statuses.update(value, known(runtime(attempt()), **EVICTED))
    assert shown(statuses) == ("Running", "", True)
    entry = statuses.entry(REF.uid)
    assert entry is not None
    assert [c.reason for c in entry.published.conditions if c.type == "DisruptionTarget"] == ["EvictionByEvictionAPI"]


def test_pod_evicted_for_a_limit_of_its_own_is_no_disruption_target() -> None:
    statuses, _ = manager()
    value = pod(static=False)
    statuses.update(value, known(runtime(exited(code=137)), stopped=True, **LIMITED))
    assert shown(statuses) == ("Failed", "Evicted", False)


def test_pod_that_is_evicted_while_it_is_being_stopped_was_evicted() -> None:
    """Controllers match on the reason, and on the condition of a pod whose deadline had passed as well."""
    for first, expected in (("Preempting", "Evicted"), ("DeadlineExceeded", "DeadlineExceeded")):
        statuses, _ = manager()
        value = pod(static=False)
        statuses.update(value, known(runtime(attempt())))
        begun: dict[str, Any] = {"terminal_reason": first, "terminal_message": "why", "terminating": True}
        statuses.update(value, known(runtime(attempt()), **begun))
        evicted = {**EVICTED, "terminal_reason": expected}
        statuses.update(value, known(runtime(attempt()), **evicted))
        statuses.update(value, known(runtime(exited(code=137)), stopped=True, **evicted))
        assert shown(statuses) == ("Failed", expected, True)
        entry = statuses.entry(REF.uid)
        assert entry is not None
        (target,) = [c for c in entry.published.conditions if c.type == "DisruptionTarget"]
        assert (target.reason, target.message) == ("TerminationByKubelet", "too big")


@pytest.mark.parametrize(
    ("reason", "codes", "restart", "expected"),
    [
        ("Preempting", (0, 0), "Always", ("Succeeded", "", "", True)),
        ("Evicted", (0, 0), "Never", ("Succeeded", "", "", True)),
        ("Terminated", (0, 0), "OnFailure", ("Succeeded", "", "", True)),
        ("Preempting", (0, 143), "Always", ("Failed", "Preempting", "why", True)),
        ("DeadlineExceeded", (0, 0), "Always", ("Failed", "DeadlineExceeded", "why", False)),
    ],
)
def test_pod_stopped_for_the_nodes_sake_ends_as_its_containers_do(
    reason: str, codes: tuple[int, int], restart: str, expected: tuple[str, str, str, bool]
) -> None:
    statuses, changes = manager()
    value = pod(container(), container("b"), restart_policy=restart, static=False)
    stopping: dict[str, Any] = {"terminal_reason": reason, "terminal_message": "why", "terminating": True}
    if reason != "DeadlineExceeded":
        stopping |= {"disruption_reason": reason, "disruption_message": "why"}
    statuses.update(value, known(runtime(attempt(), attempt("b"))))
    statuses.update(value, known(runtime(attempt(), attempt("b")), **stopping))
    ends = runtime(exited(code=codes[0]), exited("b", code=codes[1]))
    statuses.update(value, known(ends, stopped=True, **stopping))
    statuses.terminate(value)
    statuses.update(value, known(ends, stopped=True, **stopping))
    entry = statuses.entry(REF.uid)
    assert entry is not None
    phase, shown_reason, disrupted = shown(statuses)
    assert (phase, shown_reason, entry.published.message, disrupted) == expected
    phases = [c.current.phase for c in changes if c.current is not None]
    assert set(phases) == {"Running", expected[0]}, "others see one terminal phase only"


def test_static_pod_stopped_for_the_nodes_sake_has_failed() -> None:
    statuses, _ = manager()
    value = pod(static=True)
    statuses.update(value, known(runtime(attempt())))
    statuses.update(value, known(runtime(exited()), stopped=True, **EVICTED))
    assert shown(statuses) == ("Failed", "Evicted", True)


def test_reject_sets_a_failed_status() -> None:
    statuses, _ = manager()
    assert statuses.reject(pod(), "OutOfpods", "full").phase == "Failed"
    got = statuses.get(REF.uid)
    assert got is not None and got.message == "Pod was rejected: full"


def test_termination_completes_the_last_status() -> None:
    statuses, changes = manager()
    value = pod(static=False)
    statuses.update(value, known(runtime(attempt())))
    got = statuses.terminate(value)
    state = got.container_statuses[0].state
    assert state is not None and state.terminated is not None
    assert (got.phase, state.terminated.exit_code) == ("Failed", 137)
    entry = statuses.entry(REF.uid)
    assert entry is not None and entry.finished
    assert changes[-1].current == got
    statuses.set(value, got)
    entry = statuses.entry(REF.uid)
    assert entry is not None and entry.finished, "what is finished stays so"


def test_termination_with_a_given_status_and_of_an_unknown_pod() -> None:
    statuses, _ = manager()
    assert statuses.terminate(pod(static=False)).phase == "Failed"
    statuses.remove(REF.uid)
    assert statuses.terminate(pod(static=False), core.PodStatus(phase="Succeeded")).phase == "Succeeded"


def test_removal_notifies_once_and_forgets_everything() -> None:
    statuses, changes = manager()
    statuses.update(pod(), known(runtime(exited(code=1))))
    statuses.remove(REF.uid)
    statuses.remove(REF.uid)
    statuses.remove(PodUID("unknown"))
    assert [c.current is None for c in changes] == [False, True]
    assert changes[1].version == statuses.version > changes[0].version
    assert (statuses.get(REF.uid), statuses.snapshot()) == (None, ())


def test_unsubscribed_callback_gets_no_changes() -> None:
    statuses, _ = manager()
    seen: list[StatusChange] = []
    end = statuses.subscribe(seen.append)
    statuses.set(pod(), core.PodStatus(phase="Pending"))
    end()
    statuses.set(pod(), core.PodStatus(phase="Running"))
    assert len(seen) == 1


def test_the_snapshot_is_in_the_order_of_arrival() -> None:
    statuses, _ = manager()
    for name in "cab":
        statuses.set(with_meta(pod(), uid=name, name=name), core.PodStatus(phase="Pending"))
    statuses.set(with_meta(pod(), uid="c", name="c"), core.PodStatus(phase="Running"))
    assert [e.pod.metadata.name for e in statuses.snapshot()] == ["c", "a", "b"]


async def test_a_pod_that_is_being_stopped_is_shown_as_deleted() -> None:
    clock = VirtualClock()
    statuses = SettableStatuses(clock=clock, node=Node())
    value = pod()
    statuses.update(value, known(runtime(attempt())))
    await clock.advance(60)
    begun = time_from_unix(clock.now())
    statuses.update(value, known(runtime(attempt()), terminating=True))
    await clock.advance(5)
    statuses.update(value, known(runtime(exited()), terminating=True))
    entry = statuses.entry(REF.uid)
    assert entry is not None and entry.merged.metadata.deletion_timestamp == begun


def test_a_pod_that_has_ended_is_not_shown_as_terminating() -> None:
    statuses, _ = manager()
    value = pod(restart_policy="Never")
    statuses.update(value, known(runtime(exited())))
    statuses.update(value, known(runtime(exited()), terminating=True))
    entry = statuses.entry(REF.uid)
    assert entry is not None
    assert (entry.merged.status.phase, entry.merged.metadata.deletion_timestamp) == ("Succeeded", None)


def test_static_pod_stays_ready_when_the_agent_restarts() -> None:
    """Its object has no status; its mirror pod has what the earlier run of the agent has reported."""
    value = pod(container(startup_probe=PROBE, readiness_probe=PROBE), static=True)
    probes = {ContainerID("app-0"): ContainerProbes(startup=ProbeResult.SUCCESS, readiness=ProbeResult.SUCCESS)}
    first = manager()[0].update(value, known(runtime(attempt()), probes))
    mirror = replace(value, status=first)
    again = SettableStatuses(clock=VirtualClock(), node=Node(), mirror_of=lambda pod: mirror)
    [status] = again.update(value, known(runtime(attempt()))).container_statuses
    assert (status.started, status.ready) == (True, True)
    [status] = manager()[0].update(value, known(runtime(attempt()))).container_statuses
    assert (status.started, status.ready) == (False, False), "without a mirror pod nothing is known"


def test_static_pod_stays_ready_when_its_mirror_pod_is_seen_late() -> None:
    value = pod(container(startup_probe=PROBE, readiness_probe=PROBE), static=True)
    probes = {ContainerID("app-0"): ContainerProbes(startup=ProbeResult.SUCCESS, readiness=ProbeResult.SUCCESS)}
    first = manager()[0].update(value, known(runtime(attempt()), probes))
    mirrors: list[core.Pod] = []
    again = SettableStatuses(clock=VirtualClock(), node=Node(), mirror_of=lambda pod: mirrors[0] if mirrors else None)
    again.update(value, known(runtime(attempt())))
    again.mirror_seen(value)
    mirrors.append(replace(value, status=first))
    again.mirror_seen(value)
    shown = again.get(REF.uid)
    assert shown is not None
    assert [(status.started, status.ready) for status in shown.container_statuses] == [(True, True)]

    failing = {ContainerID("app-0"): ContainerProbes(startup=ProbeResult.SUCCESS, readiness=ProbeResult.FAILURE)}
    again.update(value, known(runtime(attempt()), failing))
    again.mirror_seen(value)
    shown = again.get(REF.uid)
    assert shown is not None
    assert [status.ready for status in shown.container_statuses] == [False], "results of probes count from then on"


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_static_pod_that_was_written_again_takes_nothing_from_its_mirror(phase: str) -> None:
    value = pod(container(startup_probe=PROBE), restart_policy="Never", static=True)
    first = manager()[0].update(value, known(runtime(attempt())))
    mirror = replace(value, status=replace(first, phase=phase))
    again = SettableStatuses(clock=VirtualClock(), node=Node(), mirror_of=lambda pod: mirror)
    fresh = again.update(value, known(runtime()))
    [status] = fresh.container_statuses
    assert (fresh.phase, status.container_id, status.restart_count) == ("Pending", "", 0)


def test_pod_of_the_api_server_has_its_own_status_and_no_mirror() -> None:
    asked: list[core.Pod] = []

    def mirror_of(value: core.Pod) -> core.Pod | None:
        asked.append(value)
        return None

    statuses = SettableStatuses(clock=VirtualClock(), node=Node(), mirror_of=mirror_of)
    statuses.update(pod(container(), static=False), known(runtime(attempt())))
    assert asked == []


def test_completed_init_container_that_the_runtime_has_removed_is_named_as_upstream_does() -> None:
    value = pod(container(), init=(container("init"),))
    [status] = manager()[0].update(value, known(runtime(attempt()))).init_container_statuses
    assert status.state is not None and status.state.terminated is not None
    end = status.state.terminated
    assert (end.exit_code, end.reason) == (0, "Completed")
    assert end.message.startswith("Unable to get init container status")


def late(value: core.Pod, first: core.PodStatus, *seen: StatusInput) -> core.PodStatus:
    """The status after a restart of the agent whose mirror pod, with the status ``first``, is seen at last."""
    mirrors: list[core.Pod] = []
    again = SettableStatuses(clock=VirtualClock(), node=Node(), mirror_of=lambda pod: mirrors[0] if mirrors else None)
    for source in seen:
        again.update(value, source)
    mirrors.append(replace(value, status=first))
    again.mirror_seen(value)
    shown = again.get(REF.uid)
    assert shown is not None
    return shown


def test_sidecar_of_a_static_pod_stays_ready_when_its_mirror_pod_is_seen_late() -> None:
    value = pod(container(), init=[sidecar(startup_probe=PROBE, readiness_probe=PROBE)], static=True)
    probes = {ContainerID("proxy-0"): ContainerProbes(startup=ProbeResult.SUCCESS, readiness=ProbeResult.SUCCESS)}
    running = runtime(attempt("proxy"), attempt())
    first = manager()[0].update(value, known(running, probes))
    shown = late(value, first, known(running))
    assert [(status.started, status.ready) for status in shown.init_container_statuses] == [(True, True)]
    assert {c.type: c.status for c in shown.conditions} == {c.type: c.status for c in first.conditions}


def test_observed_status_survives_a_late_mirror_pod() -> None:
    value = pod(container(readiness_probe=PROBE), container("b"), static=True)
    probes = {ContainerID("app-0"): ContainerProbes(readiness=ProbeResult.SUCCESS)}
    first = manager()[0].update(value, known(runtime(attempt(), attempt("b")), probes))
    gone = runtime(attempt(), sandboxes=[])
    shown = late(value, first, known(runtime(attempt(), attempt("b"))), known(gone))
    app, b = shown.container_statuses
    assert app.ready, "of the earlier run of the agent"
    assert (b.restart_count, b.last_state is not None) == (1, True), "its end was seen"
    assert shown.pod_ip == "10.0.0.5"
