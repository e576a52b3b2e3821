"""The steps of a pod worker, one for each phase: level-triggered, repeatable at any moment and after any crash.

Every step reads the runtime's state first and acts on the difference. Nothing is carried over from the previous step
except its failures, which the pod's status shows as waiting reasons.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.event_times import EventTimes
from pykubelet.base.units import Seconds
from pykubelet.kubelet.control.workers.plan.deadline import deadline_of
from pykubelet.kubelet.control.workers.plan.rejection import rejection_of
from pykubelet.kubelet.control.workers.worker_interfaces import Conditions, Meter, Probes, Resources, Runtime, Status
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.outcome import Failure, Outcome, PreparationResult, SyncAction
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.reports.status_input import StatusInput
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import PodRuntimeStatus, SandboxStatus
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

_READY_TRUE = ("Ready", "True")
_CLEANUP_DELAY_SECONDS = 0.5
_FIRST_REPLY_SECONDS = 30.0
"""Retry delay until the runtime's first reply, a safety net: every pod is woken as soon as that arrives."""


class PodSteps:
    """Takes the steps of all pods; it keeps no state of a pod but the time of its start."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        resources: Resources,
        probes: Probes,
        status: Status,
        conditions: Conditions,
        telemetry: Telemetry[Meter],
        watch_closely: Callable[[PodUID], None],
    ) -> None:
        """``watch_closely`` is called when a step has changed the pod, so that PLEG lists it soon where the runtime
        sends no events."""
        self._runtime = runtime
        self._resources = resources
        self._probes = probes
        self._status = status
        self._conditions = conditions
        self._telemetry = telemetry
        self._watch_closely = watch_closely
        self._event_times = EventTimes(telemetry.clock)
        self._stopping: dict[PodUID, tuple[WorkerState, Pod, PodRuntimeStatus]] = {}
        """The pods whose containers are being stopped now, as they were before."""

    async def take(self, phase: Phase, state: WorkerState) -> StepResult:
        """Take the step of ``phase`` once.

        Expected errors (`PykubeletError`) are returned as failures; cancellation and other exceptions propagate.
        """
        try:
            if not self._conditions.known():
                # Container ids in statuses begin with the runtime's name, which is unknown before its first reply.
                # Ids without it would not be recognized as those of the same containers later.
                raise Transient("the container runtime has not responded yet", retry_after=_FIRST_REPLY_SECONDS)
            match phase:
                case Phase.SYNC:
                    return await self._sync(state)
                case Phase.TERMINATING:
                    return await self._terminating(state)
                case Phase.TERMINATED:
                    return await self._terminated(state)
                case Phase.REMOVED:
                    return await self._removed(state)
                case _:
                    assert_never(phase)
        except Transient as error:
            if error.retry_after is None:
                self._report_failure(state, error)
            wake = None if error.retry_after is None else self._telemetry.clock.monotonic() + error.retry_after
            return StepResult(failures=(_step_failure(state, error, transient=True),), wake_at=wake)
        except PykubeletError as error:
            self._report_failure(state, error)
            return StepResult(failures=(_step_failure(state, error, transient=False),))

    def report_readiness(self, uid: PodUID) -> None:
        """Report the readiness of a pod whose containers are being stopped; other pods report it in their next sync."""
        if uid in self._stopping:
            state, pod, runtime = self._stopping[uid]
            self._report(state, pod, runtime, (), terminating=True)

    def _report_failure(self, state: WorkerState, error: PykubeletError) -> None:
        self._telemetry.events.event(state.ref, WARNING, Reason.FAILED_SYNC, f"error syncing the pod: {error}")

    async def _sync(self, state: WorkerState) -> StepResult:
        assert state.pod is not None, "only terminating steps are taken for pods without a spec"
        pod = state.pod
        runtime = await self._runtime.pod_status(state.ref)
        self._probes.sync_pod(pod, runtime)
        api = self._report(state, pod, runtime)
        if api.phase in ("Succeeded", "Failed"):
            return StepResult(finished=True)
        deadline = deadline_of(pod, self._started(pod, api))
        if deadline is not None and self._telemetry.clock.monotonic() >= deadline:
            message = "Pod was active on the node longer than the specified deadline"
            self._telemetry.events.event(state.ref, NORMAL, Reason.DEADLINE_EXCEEDED, message)
            return StepResult(finished=True, terminal_reason=Reason.DEADLINE_EXCEEDED, terminal_message=message)
        no_network = self._network_failure(pod)
        prepared = PreparationResult(no_network) if no_network else await self._resources.prepare(pod, runtime)
        if (rejection := rejection_of(prepared.failures)) is not None:
            return self._reject(state, rejection)
        if prepared.failures:
            self._report(state, pod, runtime, prepared.failures)
            return StepResult(failures=prepared.failures, wake_at=deadline)
        ready = partial(self._sandbox_ready, state, pod, runtime)
        outcome = await self._runtime.sync_pod(pod, runtime, self._probes.results(runtime), prepared, ready)
        if outcome.changed:
            self._watch_closely(state.ref.uid)
        if outcome.failures != state.failures and not outcome.changed:
            self._report(state, pod, runtime, outcome.failures)
        wake = min((t for t in (deadline, outcome.wake_at) if t is not None), default=None)
        return StepResult(again=outcome.changed, wake_at=wake, failures=outcome.failures, decisions=outcome.decisions)

    def _reject(self, state: WorkerState, failure: Failure) -> StepResult:
        """End a pod that cannot be prepared on this node, as if it had not been admitted (upstream: ``rejectPod``)."""
        self._telemetry.events.event(state.ref, WARNING, failure.reason, failure.message)
        self._telemetry.metrics.admission_rejected(failure.reason)
        message = f"Pod was rejected: {failure.message}"
        return StepResult(finished=True, terminal_reason=failure.reason, terminal_message=message)

    def _sandbox_ready(self, state: WorkerState, pod: Pod, runtime: PodRuntimeStatus, sandbox: SandboxStatus) -> None:
        """Report a new sandbox at once: pulls and starts may take long (PodReadyToStartContainers, KEP-3085)."""
        if not runtime.running:
            stopped = tuple(replace(each, ready=False) for each in runtime.sandboxes)
            self._report(state, pod, replace(runtime, sandboxes=(sandbox, *stopped)))

    def _started(self, pod: Pod, api: PodStatus) -> Seconds | None:
        """Return the monotonic time of the pod's start, which its status has in wall time."""
        if api.start_time is None:
            return None
        return self._event_times.monotonic(pod.metadata.uid, api.start_time.timestamp())

    def _report(
        self,
        state: WorkerState,
        pod: Pod,
        runtime: PodRuntimeStatus,
        failures: tuple[Failure, ...] | None = None,
        *,
        terminating: bool = False,
        stopped: bool = False,
    ) -> PodStatus:
        api = self._status.update(
            pod,
            StatusInput(
                runtime=runtime,
                probes=self._probes.results(runtime),
                failures=state.failures if failures is None else failures,
                terminating=terminating,
                stopped=stopped,
                terminal_reason=state.terminal_reason,
                terminal_message=state.terminal_message,
                disruption_reason=state.disruption_reason,
                disruption_message=state.disruption_message,
            ),
        )
        if any((c.type, c.status) == _READY_TRUE for c in api.conditions):
            self._telemetry.timeline.end(state.ref.uid, Step.READY)
        return api

    def _network_failure(self, pod: Pod) -> tuple[Failure, ...]:
        """Return a failure for a pod with a network of its own while the runtime's network plugin is not ready."""
        conditions = self._conditions.current()
        if pod.spec.host_network or conditions.network_ready or not conditions.runtime_ready:
            return ()
        message = f"network is not ready: container runtime network not ready: {conditions.message}"
        self._telemetry.events.event(ref_of(pod), WARNING, Reason.NETWORK_NOT_READY, message)
        name = pod.metadata.name
        return (Failure(SyncAction.CREATE_SANDBOX, name, Reason.NETWORK_NOT_READY, message, transient=True),)

    async def _terminating(self, state: WorkerState) -> StepResult:
        runtime = await self._runtime.pod_status(state.ref)
        self._probes.stop_all_but_readiness(state.ref.uid)
        if state.pod is not None and not state.rejected:
            self._report(state, state.pod, runtime, (), terminating=True)
        outcome = await self._kill(state, runtime)
        if outcome.failures:
            text = "; ".join(f"{f.target}: {f.message}" for f in outcome.failures)
            self._telemetry.events.event(state.ref, WARNING, Reason.FAILED_TO_KILL_POD, f"error killing pod: {text}")
            return StepResult(failures=outcome.failures)
        runtime = await self._runtime.pod_status(state.ref)
        if runtime.running:
            names = ", ".join(c.name for c in runtime.running)
            message = f"containers still run after they were stopped: {names}"
            return StepResult(
                failures=(Failure(SyncAction.KILL_POD, state.ref.name, Reason.FAILED_TO_KILL_POD, message),)
            )
        self._probes.remove_pod(state.ref.uid)
        if state.pod is not None and not state.rejected:
            self._report(state, state.pod, runtime, (), terminating=True, stopped=True)
        return StepResult(finished=True)

    async def _kill(self, state: WorkerState, runtime: PodRuntimeStatus) -> Outcome:
        """Stop the containers, which may take the whole grace period; `report_readiness` is called meanwhile."""
        if state.pod is not None and not state.rejected:
            self._stopping[state.ref.uid] = state, state.pod, runtime
        try:
            return await self._runtime.kill_pod(state.ref, state.pod, runtime, state.grace_seconds)
        finally:
            self._stopping.pop(state.ref.uid, None)

    async def _terminated(self, state: WorkerState) -> StepResult:
        # release() waits until the kernel has released mounts and cgroups after the kill.
        await self._resources.release(state.ref.uid)
        if state.pod is not None and not state.rejected:
            self._status.terminate(state.pod)
        return StepResult(finished=True)

    async def _removed(self, state: WorkerState) -> StepResult:
        if state.pod is not None and not is_static(state.pod):
            # A replacement pod often arrives at once under another name; the cleanup would slow down its start.
            await self._telemetry.clock.sleep(_CLEANUP_DELAY_SECONDS)
        # A manifest that is deleted and written again is the same pod, restarted: upstream counts it as a restart.
        await self._runtime.remove_pod(state.ref, keep_logs=state.restart is not None)
        await self._resources.forget(state.ref.uid)
        self._status.remove(state.ref.uid)
        return StepResult(finished=True)


def _step_failure(state: WorkerState, error: PykubeletError, *, transient: bool) -> Failure:
    return Failure(SyncAction.KILL_POD, state.ref.name, Reason.FAILED_SYNC, str(error), transient)
