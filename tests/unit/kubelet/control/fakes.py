"""A node in a few lines: pods run as soon as they are synced and stop as soon as they are killed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from pykubelet.base.clock import utc
from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.control.workers import PodWorkers, WorkerTable
from pykubelet.kubelet.control.workers.steps import PodSteps
from pykubelet.kubelet.control.workers.worker_interfaces import Probes, WorkerDeps
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.kubelet.types.outcome import Failure, Outcome, PreparationResult
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.reports.decisions import Decision
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerStatus,
    PodRuntimeStatus,
    RuntimeConditions,
    SandboxStatus,
)
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models.core_v1 import Container, Pod, PodSpec, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock


def make_pod(uid: str, name: str = "web", grace: int = 30, source: str = "file") -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=uid, annotations={ANNOTATION_SOURCE: source})
    spec = PodSpec(containers=(Container(name="c", image="i"),), termination_grace_period_seconds=grace)
    return Pod(metadata=meta, spec=spec)


class NoProbes:
    """The probe manager of pods without probes."""

    def sync_pod(self, pod: Pod, status: PodRuntimeStatus) -> None: ...

    def results(self, status: PodRuntimeStatus) -> Mapping[ContainerID, ContainerProbes]:
        return {}

    def stop_all_but_readiness(self, uid: PodUID) -> None: ...

    def remove_pod(self, uid: PodUID) -> None: ...


class Decisions:
    """The recorder of decisions: keeps what is recorded, as text."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.forgotten: list[PodUID] = []

    def add(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        self.reported += (f"{uid}: {d.topic} {d.subject}: {d.action}: {d.reason}: {d.message}" for d in decisions)

    def synced(self, uid: PodUID, decisions: Iterable[Decision]) -> None:
        self.add(uid, decisions)

    def forget(self, uid: PodUID) -> None:
        self.forgotten.append(uid)


@dataclass
class Node:
    """A fake of every interface that the workers call; records the calls."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    calls: list[str] = field(default_factory=list)
    running: dict[PodUID, str] = field(default_factory=dict)
    exited: set[PodUID] = field(default_factory=set)
    errors: dict[str, list[PykubeletError]] = field(default_factory=dict)
    """Errors to raise by call (``sync``, ``kill``, …), first in first out."""
    outcomes: list[Outcome] = field(default_factory=list)
    prepare_failures: list[tuple[Failure, ...]] = field(default_factory=list)
    hold: dict[str, asyncio.Event] = field(default_factory=dict)
    """Calls that wait until their event is set."""
    events: list[str] = field(default_factory=list)
    reports: list[tuple[PodUID, StatusInput]] = field(default_factory=list)
    runtime_known: bool = True
    conditions_now: RuntimeConditions = field(default_factory=lambda: RuntimeConditions(True, True))
    start_time: float | None = None
    new_sandbox: SandboxStatus | None = None
    """A sandbox that the syncs create."""
    watched: list[PodUID] = field(default_factory=list)
    metered: list[str] = field(default_factory=list)
    journal: Decisions = field(default_factory=Decisions)
    table: WorkerTable = field(default_factory=WorkerTable)
    """The workers that are given this node."""

    def deps(self) -> WorkerDeps:
        return WorkerDeps(
            runtime=self,
            resources=self,
            probes=NoProbes(),
            status=self,
            conditions=self,
            journal=self.journal,
            telemetry=Telemetry(clock=self.clock, events=self, timeline=self, metrics=self),
            watch_closely=self.watched.append,
        )

    def steps(self, probes: Probes | None = None) -> PodSteps:
        return PodSteps(
            runtime=self,
            resources=self,
            probes=probes or NoProbes(),
            status=self,
            conditions=self,
            telemetry=Telemetry(clock=self.clock, events=self, timeline=self, metrics=self),
            watch_closely=self.watched.append,
        )

    async def _enter(self, call: str, subject: str) -> None:
        self.calls.append(f"{call} {subject}")
        if call in self.hold:
            await self.hold[call].wait()
        if self.errors.get(call):
            raise self.errors[call].pop(0)

    async def pod_status(self, ref: PodRef) -> PodRuntimeStatus:
        if self.errors.get("status"):
            raise self.errors["status"].pop(0)
        containers: tuple[ContainerStatus, ...] = ()
        if ref.uid in self.running:
            containers = (ContainerStatus(ContainerID(f"c-{ref.uid}"), "c", ContainerState.RUNNING),)
        return PodRuntimeStatus(ref, containers=containers)

    async def sync_pod(
        self,
        pod: Pod,
        status: PodRuntimeStatus,
        probes: Mapping[ContainerID, ContainerProbes],
        prepared: PreparationResult,
        sandbox_ready: Callable[[SandboxStatus], None],
    ) -> Outcome:
        if self.new_sandbox is not None:
            sandbox_ready(self.new_sandbox)
        await self._enter("sync", pod.metadata.uid)
        if self.outcomes:
            return self.outcomes.pop(0)
        uid = PodUID(pod.metadata.uid)
        changed = uid not in self.running
        self.running[uid] = pod.metadata.name
        return Outcome(changed=changed)

    async def kill_pod(
        self, ref: PodRef, pod: Pod | None, status: PodRuntimeStatus, grace_seconds: int | None
    ) -> Outcome:
        await self._enter("kill", f"{ref.uid} grace={grace_seconds}")
        self.running.pop(ref.uid, None)
        return Outcome(changed=True)

    async def remove_pod(self, ref: PodRef, *, keep_logs: bool) -> None:
        await self._enter("remove", f"{ref.uid} but not its logs" if keep_logs else ref.uid)

    async def prepare(self, pod: Pod, status: PodRuntimeStatus) -> PreparationResult:
        return PreparationResult(self.prepare_failures.pop(0) if self.prepare_failures else ())

    async def release(self, uid: PodUID) -> None:
        await self._enter("release", uid)

    async def forget(self, uid: PodUID) -> None:
        await self._enter("forget", uid)

    def update(self, pod: Pod, source: StatusInput) -> PodStatus:
        uid = PodUID(pod.metadata.uid)
        self.reports.append((uid, source))
        start = None if self.start_time is None else utc(self.start_time)
        phase = "Failed" if source.terminal_reason else "Succeeded" if uid in self.exited else "Running"
        return PodStatus(phase=phase, start_time=start)

    def reject(self, pod: Pod, reason: str, message: str) -> PodStatus:
        self.calls.append(f"reject {pod.metadata.uid} {reason}")
        return PodStatus(phase="Failed", reason=reason, message=message)

    def terminate(self, pod: Pod) -> PodStatus:
        return PodStatus(phase="Succeeded")

    def remove(self, uid: PodUID) -> None:
        self.calls.append(f"status-remove {uid}")

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.events.append(f"{event_type} {reason} {message}")

    def pod_seen(self, pod: Pod) -> None: ...

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None: ...

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None: ...

    def current(self) -> RuntimeConditions:
        return self.conditions_now

    def known(self) -> bool:
        return self.runtime_known

    def worker_started(self, seconds: float) -> None:
        self.metered.append("started")

    def worker_duration(self, operation: str, seconds: float) -> None:
        self.metered.append(operation)

    def pod_restarted(self, *, static: bool) -> None:
        self.metered.append(f"restarted static={static}")

    def admission_rejected(self, reason: str) -> None:
        self.metered.append(f"rejected {reason}")

    def pod_orphaned(self) -> None:
        self.metered.append("orphaned")


U1, U2 = PodUID("u1"), PodUID("u2")


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[PodWorkers]:
    workers = PodWorkers(node.deps(), node.table)
    task = asyncio.create_task(workers.run(), name="workers")
    try:
        await node.clock.settle()
        yield workers
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
