"""Single steps of a pod worker: what each asks of the other stages, in which order, and what it reports."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.outcome import Failure, Outcome, SyncAction
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import PodRuntimeStatus, RuntimeConditions, SandboxStatus
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus
from tests.unit.kubelet.control.fakes import Node, make_pod

U1 = PodUID("u1")
POD = make_pod("u1")
STATE = WorkerState(ref_of(POD), POD)
BROKEN = Failure(SyncAction.START_CONTAINER, "c", "RunContainerError", "no such file")
ORPHAN = WorkerState(ref_of(POD), None)
REJECTED = WorkerState(ref_of(POD), POD, rejected=True)


@dataclass
class RecordingNode(Node):
    """A node that records calls on the status and on probes, too, and the steps of the timeline that have ended."""

    ended: list[Step] = field(default_factory=list)
    ready: str = ""

    def sync_probes(self) -> "RecordingProbes":
        return RecordingProbes(self.calls)

    async def take(self, phase: Phase, state: WorkerState) -> StepResult:
        return await self.steps(self.sync_probes()).take(phase, state)

    def update(self, pod: Pod, source: StatusInput) -> PodStatus:
        status = super().update(pod, source)
        flags = [name for name in ("terminating", "stopped") if getattr(source, name)]
        self.calls.append(" ".join(["report", *flags]))
        if not self.ready:
            return status
        conditions = (PodCondition(type="Initialized", status="True"), PodCondition(type="Ready", status=self.ready))
        return replace(status, conditions=conditions)

    def terminate(self, pod: Pod) -> PodStatus:
        self.calls.append("terminate")
        return super().terminate(pod)

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        self.ended.append(step)


class RecordingProbes:
    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def sync_pod(self, pod: Pod, status: PodRuntimeStatus) -> None:
        self._calls.append("probes")

    def results(self, status: PodRuntimeStatus) -> Mapping[ContainerID, ContainerProbes]:
        return {}

    def stop_all_but_readiness(self, uid: PodUID) -> None:
        self._calls.append("probes stop")

    def remove_pod(self, uid: PodUID) -> None:
        self._calls.append("probes remove")


async def test_sync_starts_probes_and_reports_before_it_acts() -> None:
    node = RecordingNode()
    result = await node.take(Phase.SYNC, STATE)
    assert node.calls == ["probes", "report", "sync u1"]
    assert (result.again, result.finished, node.watched) == (True, False, [U1])
    result = await node.take(Phase.SYNC, STATE)
    assert (result.again, result.failures, result.wake_at, node.watched) == (False, (), None, [U1])


@pytest.mark.parametrize(("ready", "ended"), [("", []), ("False", []), ("True", [Step.READY])])
async def test_pod_that_becomes_ready_ends_its_timeline(ready: str, ended: list[Step]) -> None:
    node = RecordingNode(ready=ready, running={U1: "web"})
    await node.take(Phase.SYNC, STATE)
    assert node.ended == ended


@pytest.mark.parametrize(
    ("state", "outcome", "reported"),
    [
        (STATE, Outcome(), [()]),
        (STATE, Outcome(failures=(BROKEN,)), [(), (BROKEN,)]),
        # What has changed is reported by the next sync, which comes at once.
        (STATE, Outcome(changed=True, failures=(BROKEN,)), [()]),
        (WorkerState(ref_of(POD), POD, failures=(BROKEN,)), Outcome(failures=(BROKEN,)), [(BROKEN,)]),
        (WorkerState(ref_of(POD), POD, failures=(BROKEN,)), Outcome(), [(BROKEN,), ()]),
    ],
)
async def test_failures_of_a_sync_are_reported_once(
    state: WorkerState, outcome: Outcome, reported: list[tuple[Failure, ...]]
) -> None:
    node = RecordingNode(outcomes=[outcome])
    result = await node.take(Phase.SYNC, state)
    assert [source.failures for _, source in node.reports] == reported
    assert (result.failures, result.again) == (outcome.failures, outcome.changed)


@pytest.mark.parametrize(("back_off", "expected"), [(None, 100.0), (40.0, 40.0), (200.0, 100.0)])
async def test_next_sync_is_at_the_end_of_the_back_off_or_of_the_deadline(
    back_off: float | None, expected: float
) -> None:
    node = RecordingNode()
    now = node.clock.monotonic()
    node.start_time = node.clock.now()
    pod = replace(POD, spec=replace(POD.spec, active_deadline_seconds=100))
    node.outcomes = [Outcome(wake_at=None if back_off is None else now + back_off)]
    result = await node.take(Phase.SYNC, WorkerState(ref_of(POD), pod))
    assert result.wake_at == pytest.approx(now + expected)
    node.prepare_failures = [(BROKEN,)]
    result = await node.take(Phase.SYNC, WorkerState(ref_of(POD), pod))
    assert result.failures == (BROKEN,)
    assert result.wake_at == pytest.approx(now + 100)
    assert node.reports[-1][1].failures == (BROKEN,)


async def test_pod_ends_when_its_deadline_is_reached() -> None:
    node = RecordingNode()
    node.start_time = node.clock.now()
    pod = replace(POD, spec=replace(POD.spec, active_deadline_seconds=100))
    steps = node.steps()
    assert not (await steps.take(Phase.SYNC, WorkerState(ref_of(POD), pod))).finished
    await node.clock.advance(100)
    result = await steps.take(Phase.SYNC, WorkerState(ref_of(POD), pod))
    assert (result.finished, result.terminal_reason) == (True, "DeadlineExceeded")
    assert node.events == ["Normal DeadlineExceeded Pod was active on the node longer than the specified deadline"]


async def test_sync_of_an_ended_pod_does_nothing_more() -> None:
    node = RecordingNode(exited={U1})
    assert (await node.take(Phase.SYNC, STATE)).finished
    assert node.calls == ["probes", "report"]


@pytest.mark.parametrize(
    ("conditions", "host_network", "waits"),
    [
        (RuntimeConditions(True, True), False, False),
        (RuntimeConditions(True, False, "no CNI plugin"), False, True),
        (RuntimeConditions(True, False, "no CNI plugin"), True, False),
        # The runtime itself is not ready: its own error says more.
        (RuntimeConditions(False, False), False, False),
    ],
)
async def test_pod_waits_for_the_network_only_if_it_needs_it(
    conditions: RuntimeConditions, host_network: bool, waits: bool
) -> None:
    node = RecordingNode(conditions_now=conditions)
    pod = replace(POD, spec=replace(POD.spec, host_network=host_network))
    result = await node.take(Phase.SYNC, WorkerState(ref_of(POD), pod))
    assert ("sync u1" not in node.calls) is waits
    assert [(f.reason, f.transient, f.target) for f in result.failures] == (
        [("NetworkNotReady", True, "web")] if waits else []
    )
    text = "network is not ready: container runtime network not ready: no CNI plugin"
    assert node.events == ([f"Warning NetworkNotReady {text}"] if waits else [])


@pytest.mark.parametrize("runs", [False, True])
async def test_new_sandbox_is_reported_with_the_others_not_ready(runs: bool) -> None:
    """Not while containers run: they are in the sandbox before, and the status would be without its addresses."""
    node = RecordingNode(running={U1: "web"} if runs else {})
    old = SandboxStatus(SandboxID("s1"), True)
    status = node.pod_status

    async def with_old(ref: object) -> PodRuntimeStatus:
        found = await status(ref_of(POD))
        return PodRuntimeStatus(found.ref, containers=found.containers, sandboxes=(old,))

    node.pod_status = with_old  # type: ignore[method-assign]
    node.new_sandbox = SandboxStatus(SandboxID("s2"), True)
    await node.take(Phase.SYNC, STATE)
    shown = [[(each.id, each.ready) for each in source.runtime.sandboxes] for _, source in node.reports]
    assert shown == ([[("s1", True)]] if runs else [[("s1", True)], [("s2", True), ("s1", False)]])


@pytest.mark.parametrize("phase", Phase)
async def test_no_step_is_taken_before_the_runtime_has_replied(phase: Phase) -> None:
    node = RecordingNode(runtime_known=False)
    result = await node.take(phase, STATE)
    assert node.calls == node.events == []
    assert [each.transient for each in result.failures] == [True]
    assert result.wake_at == node.clock.monotonic() + 30


@pytest.mark.parametrize("error", [Transient("busy"), Permanent("broken")])
async def test_failed_step_is_an_event_and_a_failure_of_the_pod(error: PykubeletError) -> None:
    node = RecordingNode(errors={"status": [error]})
    result = await node.take(Phase.SYNC, STATE)
    assert [(f.target, f.reason, f.message) for f in result.failures] == [("web", "FailedSync", str(error))]
    assert node.events == [f"Warning FailedSync error syncing the pod: {error}"]


async def test_stop_reports_before_and_after_and_ends_the_probes() -> None:
    node = RecordingNode(running={U1: "web"})
    result = await node.take(Phase.TERMINATING, STATE)
    assert result.finished
    assert node.calls == [
        "probes stop",
        "report terminating",
        "kill u1 grace=None",
        "probes remove",
        "report terminating stopped",
    ]


@pytest.mark.parametrize("state", [ORPHAN, REJECTED])
async def test_status_of_an_orphan_or_a_rejected_pod_is_not_computed(state: WorkerState) -> None:
    node = RecordingNode(running={U1: "web"}, hold={"kill": asyncio.Event()})
    steps = node.steps(node.sync_probes())
    stop = asyncio.create_task(steps.take(Phase.TERMINATING, state))
    await node.clock.settle()
    steps.report_readiness(U1)
    node.hold["kill"].set()
    assert (await stop).finished
    assert node.calls == ["probes stop", "kill u1 grace=None", "probes remove"]
    node.calls.clear()
    assert (await node.take(Phase.TERMINATED, state)).finished
    assert node.calls == ["release u1"]


async def test_readiness_is_reported_only_while_the_containers_are_being_stopped() -> None:
    node = RecordingNode(running={U1: "web"}, hold={"kill": asyncio.Event()})
    steps = node.steps(node.sync_probes())
    steps.report_readiness(U1)
    assert node.calls == []
    stop = asyncio.create_task(steps.take(Phase.TERMINATING, STATE))
    await node.clock.settle()
    node.calls.clear()
    steps.report_readiness(U1)
    assert node.calls == ["report terminating"]
    node.hold["kill"].set()
    await stop
    node.calls.clear()
    steps.report_readiness(U1)
    assert node.calls == []


async def test_containers_that_cannot_be_stopped_are_an_event_and_keep_their_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = RecordingNode(running={U1: "web"})

    async def kill_pod(*_: object) -> Outcome:
        return Outcome(failures=(BROKEN, BROKEN))

    monkeypatch.setattr(node, "kill_pod", kill_pod)
    result = await node.take(Phase.TERMINATING, STATE)
    assert (result.finished, result.failures) == (False, (BROKEN, BROKEN))
    assert node.events == ["Warning FailedKillPod error killing pod: c: no such file; c: no such file"]
    assert "probes remove" not in node.calls


async def test_ended_pod_releases_its_resources_before_its_status_is_final() -> None:
    node = RecordingNode()
    assert (await node.take(Phase.TERMINATED, STATE)).finished
    assert node.calls == ["release u1", "terminate"]


@pytest.mark.parametrize(("source", "waits"), [("file", False), ("http", False), ("api", True), (None, False)])
async def test_pod_of_the_api_is_removed_after_half_a_second(source: str | None, waits: bool) -> None:
    """Its replacement has another name and often arrives at once; a static pod's has to wait for the removal."""
    node = RecordingNode()
    state = ORPHAN if source is None else WorkerState(ref_of(POD), make_pod("u1", source=source))
    removal = asyncio.create_task(node.take(Phase.REMOVED, state))
    await node.clock.settle()
    assert removal.done() is not waits
    await node.clock.advance(0.5)
    assert (await removal).finished
    assert node.calls == ["remove u1", "forget u1", "status-remove u1"]
