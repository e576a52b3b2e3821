"""The steps of a pod worker, one for each phase: level-triggered, repeatable at any moment and after any crash.

Every step reads the runtime's state first and acts on the difference. Nothing is carried over from the previous step
except its failures, which the pod's status shows as waiting reasons.
"""

from typing import assert_never

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.control.workers.plan.deadline import deadline_of
from pykubelet.kubelet.control.workers.worker_interfaces import WorkerDeps
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.events import WARNING, Reason
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.outcome import Failure, Prepared, SyncAction
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.kubelet.types.status_input import StatusInput
from pykubelet.kubelet.types.timeline import Step
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

_READY_TRUE = ("Ready", "True")
_CLEANUP_DELAY_SECONDS = 0.5
_FIRST_REPLY_SECONDS = 30.0
"""Retry delay until the runtime's first reply, a safety net: every pod is woken as soon as that arrives."""


async def take(phase: Phase, state: WorkerState, deps: WorkerDeps) -> StepResult:
    """Take the step of ``phase`` once.

    Expected errors (`PykubeletError`) are returned as failures; cancellation and other exceptions propagate.
    """
    try:
        if not deps.conditions.known():
            # Container ids in statuses begin with the runtime's name, which is unknown before its first reply.
            # Ids without it would not be recognized as those of the same containers later.
            raise Transient("the container runtime has not responded yet", retry_after=_FIRST_REPLY_SECONDS)
        match phase:
            case Phase.SYNC:
                return await _sync(state, deps)
            case Phase.TERMINATING:
                return await _terminating(state, deps)
            case Phase.TERMINATED:
                return await _terminated(state, deps)
            case Phase.REMOVED:
                return await _removed(state, deps)
            case _:
                assert_never(phase)
    except Transient as error:
        if error.retry_after is None:
            _report_failure(state, deps, error)
        wake = None if error.retry_after is None else deps.telemetry.clock.monotonic() + error.retry_after
        return StepResult(failures=(_step_failure(state, error, transient=True),), wake_at=wake)
    except PykubeletError as error:
        _report_failure(state, deps, error)
        return StepResult(failures=(_step_failure(state, error, transient=False),))


def _report_failure(state: WorkerState, deps: WorkerDeps, error: PykubeletError) -> None:
    deps.telemetry.events.event(state.ref, WARNING, Reason.FAILED_SYNC, f"error syncing the pod: {error}")


def _step_failure(state: WorkerState, error: PykubeletError, *, transient: bool) -> Failure:
    return Failure(SyncAction.KILL_POD, state.ref.name, Reason.FAILED_SYNC, str(error), transient)


async def _sync(state: WorkerState, deps: WorkerDeps) -> StepResult:
    assert state.pod is not None, "only terminating steps are taken for pods without a spec"
    pod = state.pod
    runtime = await deps.runtime.pod_status(state.ref)
    deps.probes.sync_pod(pod, runtime)
    api = _report(state, pod, runtime, deps)
    if api.phase in ("Succeeded", "Failed"):
        return StepResult(finished=True)
    deadline = deadline_of(pod, _started(pod, api, deps))
    if deadline is not None and deps.telemetry.clock.monotonic() >= deadline:
        message = "Pod was active on the node longer than the specified deadline"
        return StepResult(finished=True, terminal_reason="DeadlineExceeded", terminal_message=message)
    no_network = _network_failure(pod, deps)
    prepared = Prepared(no_network) if no_network else await deps.resources.prepare(pod, runtime)
    if prepared.failures:
        _report(state, pod, runtime, deps, prepared.failures)
        return StepResult(failures=prepared.failures, wake_at=deadline)
    outcome = await deps.runtime.sync_pod(pod, runtime, deps.probes.results(runtime), prepared)
    if outcome.changed:
        deps.watch_closely(state.ref.uid)
    if outcome.failures != state.failures and not outcome.changed:
        _report(state, pod, runtime, deps, outcome.failures)
    wake = min((t for t in (deadline, outcome.wake_at) if t is not None), default=None)
    return StepResult(again=outcome.changed, wake_at=wake, failures=outcome.failures)


def _started(pod: Pod, api: PodStatus, deps: WorkerDeps) -> Seconds | None:
    """Return the monotonic time of the pod's start, which its status has in wall time."""
    return None if api.start_time is None else deps.event_times.monotonic(pod.metadata.uid, api.start_time.timestamp())


def _report(
    state: WorkerState,
    pod: Pod,
    runtime: PodRuntimeStatus,
    deps: WorkerDeps,
    failures: tuple[Failure, ...] | None = None,
    *,
    terminating: bool = False,
) -> PodStatus:
    api = deps.status.update(
        pod,
        StatusInput(
            runtime,
            deps.probes.results(runtime),
            state.failures if failures is None else failures,
            terminating,
            state.terminal_reason,
            state.terminal_message,
        ),
    )
    if any((c.type, c.status) == _READY_TRUE for c in api.conditions):
        deps.telemetry.timeline.end(state.ref.uid, Step.READY)
    return api


def _network_failure(pod: Pod, deps: WorkerDeps) -> tuple[Failure, ...]:
    """Return a failure for a pod with a network of its own while the runtime's network plugin is not ready."""
    conditions = deps.conditions.current()
    if pod.spec.host_network or conditions.network_ready or not conditions.runtime_ready:
        return ()
    message = f"network is not ready: {conditions.message or 'the runtime has no network configuration yet'}"
    deps.telemetry.events.event(ref_of(pod), WARNING, Reason.NETWORK_NOT_READY, message)
    name = pod.metadata.name
    return (Failure(SyncAction.CREATE_SANDBOX, name, Reason.NETWORK_NOT_READY, message, transient=True),)


async def _terminating(state: WorkerState, deps: WorkerDeps) -> StepResult:
    runtime = await deps.runtime.pod_status(state.ref)
    deps.probes.stop_all_but_readiness(state.ref.uid)
    if state.pod is not None and not state.rejected:
        _report(state, state.pod, runtime, deps, (), terminating=True)
    outcome = await deps.runtime.kill_pod(state.ref, state.pod, runtime, state.grace_seconds)
    if outcome.failures:
        text = "; ".join(f"{f.target}: {f.message}" for f in outcome.failures)
        deps.telemetry.events.event(state.ref, WARNING, Reason.FAILED_TO_KILL_POD, f"error killing pod: {text}")
        return StepResult(failures=outcome.failures)
    runtime = await deps.runtime.pod_status(state.ref)
    if runtime.running:
        names = ", ".join(c.name for c in runtime.running)
        message = f"containers still run after they were stopped: {names}"
        return StepResult(failures=(Failure(SyncAction.KILL_POD, state.ref.name, Reason.FAILED_TO_KILL_POD, message),))
    deps.probes.remove_pod(state.ref.uid)
    if state.pod is not None and not state.rejected:
        _report(state, state.pod, runtime, deps, (), terminating=True)
    return StepResult(finished=True)


async def _terminated(state: WorkerState, deps: WorkerDeps) -> StepResult:
    # release() waits until the kernel has released mounts and cgroups after the kill.
    await deps.resources.release(state.ref.uid)
    if state.pod is not None and not state.rejected:
        deps.status.terminate(state.pod)
    return StepResult(finished=True)


async def _removed(state: WorkerState, deps: WorkerDeps) -> StepResult:
    if state.pod is not None and not is_static(state.pod):
        # A replacement pod often arrives at once under another name; the cleanup would slow down its start.
        await deps.telemetry.clock.sleep(_CLEANUP_DELAY_SECONDS)
    await deps.runtime.remove_pod(state.ref)
    await deps.resources.forget(state.ref.uid)
    deps.status.remove(state.ref.uid)
    return StepResult(finished=True)
