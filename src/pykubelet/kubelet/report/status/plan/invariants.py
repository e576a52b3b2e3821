"""Invariants between two successive statuses of a pod, whatever computed them, and the final status. Pure.

A pod's record only moves forward: a terminal phase stays, restart counts do not decrease, a container that ended for
good does not run again. ``pod_status.py`` already computes such statuses; this module is the safety net below it.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.containers import STATUS_UNKNOWN, UNKNOWN_EXIT_CODE
from pykubelet.kubelet.report.status.status_types import FAILED, TERMINAL
from pykubelet.kubelet.types.podspec import AnyContainer, is_sidecar
from pykubelet.kubelet.types.restart import has_restart_all_rule, restarts_after_exit
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus

_NO_STATE = ContainerState()


def forward_only(pod: Pod, before: PodStatus, after: PodStatus) -> PodStatus:
    """Return ``after``, corrected where it must not follow on ``before``."""
    if before.phase in TERMINAL and after.phase != before.phase:
        after = replace(after, phase=before.phase, reason=before.reason, message=before.message)
    return replace(
        after,
        container_statuses=_forward(pod, pod.spec.containers, before.container_statuses, after.container_statuses),
        init_container_statuses=_forward(
            pod, pod.spec.init_containers, before.init_container_statuses, after.init_container_statuses
        ),
        start_time=before.start_time or after.start_time,
    )


def final_status(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the status of a pod of which nothing runs any more: all containers ended, the phase terminal.

    Containers whose end was not observed have failed with 137. Containers of a pod that was never initialized keep
    waiting, since they never started. A static pod keeps its phase: it may be added again with the same uid.
    """
    ordinary = status.container_statuses
    if _was_initialized(pod, status):
        ordinary = tuple(_ended(s) for s in ordinary)
    started = _started_init(status.init_container_statuses)
    init = tuple(_ended(s) if i < started else s for i, s in enumerate(status.init_container_statuses))
    phase = status.phase if is_static(pod) or status.phase in TERMINAL else FAILED
    return replace(status, container_statuses=ordinary, init_container_statuses=init, phase=phase)


def _forward(
    pod: Pod,
    containers: Sequence[AnyContainer],
    before: Sequence[ContainerStatus],
    after: Sequence[ContainerStatus],
) -> tuple[ContainerStatus, ...]:
    specs = {c.name: c for c in containers}
    known = {s.name: s for s in before}
    result = []
    for status in after:
        old = known.get(status.name)
        if old is not None and _ended_for_good(pod, specs.get(status.name), old):
            status = status if _terminated(status) is not None else old
        if old is not None and old.restart_count > status.restart_count:
            status = replace(status, restart_count=old.restart_count)
        result.append(status)
    return tuple(result)


def _ended_for_good(pod: Pod, container: AnyContainer | None, status: ContainerStatus) -> bool:
    ended = _terminated(status)
    if ended is None or container is None or is_sidecar(container) or has_restart_all_rule(pod):
        return False
    return not restarts_after_exit(pod, container, ended.exit_code)


def _was_initialized(pod: Pod, status: PodStatus) -> bool:
    """Return whether an ordinary container could have been started."""
    if not pod.spec.init_containers:
        return True
    for ordinary in status.container_statuses:
        state = ordinary.state or _NO_STATE
        if state.waiting is None or (ordinary.last_state and ordinary.last_state.terminated):
            return True
    if not status.init_container_statuses:
        return False
    last, spec = status.init_container_statuses[-1], pod.spec.init_containers[-1]
    if is_sidecar(spec):
        return bool(last.state and last.state.running and last.started)
    ends = (_terminated(last), last.last_state.terminated if last.last_state else None)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _started_init(statuses: Sequence[ContainerStatus]) -> int:
    """Return how many init containers count as started: all up to the last one with a trace."""
    for count in range(len(statuses), 0, -1):
        status = statuses[count - 1]
        if (status.state or _NO_STATE).waiting is None or (status.last_state and status.last_state.terminated):
            return count
    return min(1, len(statuses))


def _ended(status: ContainerStatus) -> ContainerStatus:
    if _terminated(status) is not None:
        return status
    end = ContainerStateTerminated(
        exit_code=UNKNOWN_EXIT_CODE,
        reason=STATUS_UNKNOWN,
        message="the container could not be located when the pod was terminated",
        container_id=status.container_id,
    )
    return replace(status, state=ContainerState(terminated=end), ready=False, started=False)


def _terminated(status: ContainerStatus) -> ContainerStateTerminated | None:
    return status.state.terminated if status.state is not None else None
