"""The pod worker's state machine: pure functions from a worker's state and an event to its next state.

A worker's phase changes only as ``LIFE_CYCLE`` allows; its diagram is in ARCHITECTURE.md.
"""

from msgspec.structs import replace

from pykubelet.base.transition_table import LifeCycle
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.outcome import SyncAction
from pykubelet.kubelet.types.podspec import grace_period
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.models.core_v1 import Pod

LIFE_CYCLE = LifeCycle(
    "pod worker",
    (
        (Phase.SYNC, "the pod has ended, or must end", Phase.TERMINATING),
        (Phase.SYNC, "removed from its source, or marked for deletion", Phase.TERMINATING),
        (Phase.TERMINATING, "no container runs", Phase.TERMINATED),
        (Phase.TERMINATED, "volumes and cgroups are released and no source lists it", Phase.REMOVED),
    ),
)

ERROR_RETRY_SECONDS = 10.0
TRANSIENT_RETRY_SECONDS = 1.0
PREPARE_RETRY_SECONDS = 0.5
RESYNC_SECONDS = 60.0
JITTER = 0.5
_SHORTEST = 1
"""Seconds of grace that a pod has at least."""


def wanted(state: WorkerState, pod: Pod) -> WorkerState:
    """Handle an update of a pod that a source lists.

    A pod that is being stopped never returns to SYNC; if its source lists it again, it is restarted afterwards, or only
    reported if it is marked for deletion.
    """
    if pod.metadata.deletion_timestamp is not None:
        state = _terminate(state, grace_period(pod))
    if not state.wanted:
        return replace(state, restart=pod, restart_refusal=None)
    return replace(state, pod=pod)


def refused(state: WorkerState, pod: Pod, reason: str, message: str) -> WorkerState:
    """Handle the rejection of a pod that its source lists again while it is being stopped."""
    return state if state.wanted else replace(state, restart=pod, restart_refusal=(reason, message))


def failed(
    state: WorkerState, reason: str, message: str, grace_seconds: int | None = None, *, disrupts: bool = True
) -> WorkerState:
    """Fail the pod for a reason of the node (preemption, eviction, shutdown), also one that is being stopped already.

    The last reason counts with which its end began, or began again for a shorter grace period: a pod that was preempted
    may be evicted before it has ended (upstream: ``statusPostTerminating`` of ``pod_workers.go``). Only that its
    deadline has passed stays, as its status is computed upstream. ``disrupts``: whether the pod fails for the node's
    sake, and not because it exceeded its own limits.
    """
    if state.phase not in (Phase.SYNC, Phase.TERMINATING) or state.rejected:
        return state
    ending = _terminate(state, grace_seconds)
    begins = state.phase is Phase.SYNC or _grace_of_stop(state) != _grace_of_stop(ending)
    if begins and state.terminal_reason != Reason.DEADLINE_EXCEEDED:
        ending = replace(ending, terminal_reason=reason, terminal_message=message)
    if begins and disrupts:
        ending = replace(ending, disruption_reason=reason, disruption_message=message)
    if grace_seconds is not None:
        ending = replace(ending, ends_in_time=True)
    return replace(ending, evicted=True) if reason == Reason.EVICTED else ending


def is_active(state: WorkerState) -> bool:
    """Whether admission counts the pod's requests: it is listed, was admitted, and its containers can still run."""
    if state.restart is not None:
        return state.restart_refusal is None
    return state.wanted and not state.rejected and state.phase in (Phase.SYNC, Phase.TERMINATING)


def is_evictable(state: WorkerState, grace_seconds: int) -> bool:
    """Whether the pod would end sooner if it were evicted with this grace period.

    A pod whose deadline has passed, or that was preempted, ends with the grace period of its spec, which may be years.
    If the node has set the time for its end already (a soft eviction, a shutdown), only a shorter one makes a
    difference.
    """
    if not (is_active(state) and state.phase in (Phase.SYNC, Phase.TERMINATING)):
        return False
    return not state.ends_in_time or state.grace_seconds is None or state.grace_seconds > max(grace_seconds, _SHORTEST)


def may_run(state: WorkerState) -> bool:
    """Whether containers of an admitted pod may run, whether or not the pod is being stopped."""
    return state.phase in (Phase.SYNC, Phase.TERMINATING) and not state.rejected


def is_released(state: WorkerState) -> bool:
    """Whether no container of the pod runs, and its volumes and cgroup are released."""
    return state.phase is Phase.REMOVED or (state.phase is Phase.TERMINATED and state.done)


def removed(state: WorkerState, grace_seconds: int | None = None) -> WorkerState:
    """Handle that no source lists the pod any more."""
    return _terminate(replace(state, wanted=False, restart=None, restart_refusal=None), grace_seconds)


def _terminate(state: WorkerState, grace_seconds: int | None) -> WorkerState:
    """Begin to stop the pod, or give it a shorter grace period; one that is being stopped never gets a longer one.

    None: the grace period of its spec, unless the state has another.
    """
    grace, granted = state.grace_seconds, _grace_of_stop(state)
    if grace_seconds is not None:
        grace = grace_seconds if granted is None else min(granted, grace_seconds)
    phase = Phase.TERMINATING if state.phase is Phase.SYNC else state.phase
    return replace(state, phase=phase, grace_seconds=grace)


def _grace_of_stop(state: WorkerState) -> int | None:
    """Return the grace period with which the pod is being stopped; None: it is not, and it gets that of its spec."""
    if state.grace_seconds is None and state.phase is Phase.TERMINATING and state.pod is not None:
        return grace_period(state.pod)
    return state.grace_seconds


def interrupts(before: WorkerState, after: WorkerState) -> bool:
    """Whether the running step, begun in state ``before``, must be cancelled because of ``after``.

    True when the pod must be terminated instead of synced, and when a termination got a shorter grace period.
    """
    if before.phase is Phase.SYNC:
        return after.phase is not Phase.SYNC
    return before.phase is Phase.TERMINATING and _grace_of_stop(before) != _grace_of_stop(after)


def next_phase(state: WorkerState) -> Phase | None:
    """Return the phase whose step is to be taken now; None: wait for an event."""
    if not state.done:
        return state.phase
    if state.phase is Phase.TERMINATED and not state.wanted:
        return Phase.REMOVED
    return None


def stepped(state: WorkerState, phase: Phase, result: StepResult) -> WorkerState:
    """Return the state after the step of ``phase`` returned ``result``; ``state`` is the current one, which may have
    changed since the step began."""
    hard = [f for f in result.failures if not f.transient]
    state = replace(state, failures=result.failures, errors=state.errors + 1 if hard else 0)
    if not result.finished:
        return state
    match phase:
        case Phase.SYNC:
            reason = result.terminal_reason or state.terminal_reason
            message = result.terminal_message or state.terminal_message
            after = replace(state, terminal_reason=reason, terminal_message=message, failures=(), errors=0)
            return replace(after, phase=Phase.TERMINATING) if state.phase is Phase.SYNC else after
        case Phase.TERMINATING:
            return replace(state, phase=Phase.TERMINATED)
        case Phase.TERMINATED:
            return replace(state, done=True)
        case Phase.REMOVED:
            return replace(state, phase=Phase.REMOVED, done=True)


def is_gone(state: WorkerState) -> bool:
    """Whether the pod is removed and its worker can be forgotten."""
    return state.phase is Phase.REMOVED and state.done


def _error_delay(state: WorkerState, result: StepResult) -> float:
    if any(f.action is not SyncAction.PREPARE for f in result.failures):
        return ERROR_RETRY_SECONDS
    doublings = min(state.errors - 1, 10)
    return min(PREPARE_RETRY_SECONDS * 2.0**doublings, ERROR_RETRY_SECONDS)


def retry_at(state: WorkerState, result: StepResult, now: float, jitter: float) -> float:
    """Return the monotonic time of the next periodic sync of the pod.

    ``jitter`` is a random number in [0, 1). Known times (the end of a back-off) are kept exactly; errors are retried
    after 10 s, transient failures after 1 s, and a healthy pod is synced once a minute. The last three are extended by
    up to half, so that pods are not synced at the same time (upstream: ``pod_workers.go``). Volumes and cgroups that
    cannot be prepared are retried after 0.5 s, 1 s, 2 s …: the API server may learn of a node's new pod later than the
    node does, and refuse its tokens and Secrets until then (upstream: the volume manager's back-off).
    """
    base = RESYNC_SECONDS
    if result.failures:
        base = _error_delay(state, result) if state.errors else TRANSIENT_RETRY_SECONDS
    elif not result.finished and state.phase is not Phase.SYNC:
        base = TRANSIENT_RETRY_SECONDS
    at = now + base * (1 + JITTER * jitter)
    if result.wake_at is None:
        return at
    if result.failures and state.errors == 0:
        return max(result.wake_at, now)
    return max(min(at, result.wake_at), now)
