"""The phase of a pod, from the statuses of its containers. Pure.

The rules are the API's (documentation of ``PodStatus.phase``), with the Go kubelet's refinements for init containers,
sidecars (KEP-753) and restart rules (KEP-5307).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from pykubelet.kubelet.report.status.plan.containers import RESTARTING_ALL
from pykubelet.kubelet.report.status.status_types import FAILED, PENDING, RUNNING, SUCCEEDED
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.restart import restarts_after_exit
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod

_NO_STATE = ContainerState()


class _Counts(Struct):
    """Number of containers in each situation."""

    init_pending: int = 0
    """Ordinary init containers that have not ended."""
    init_failed: int = 0
    """Ordinary init containers that have failed and do not run again."""
    sidecars_pending: int = 0
    """Sidecars that have not come up yet."""
    unknown: int = 0
    running: int = 0
    """Ordinary containers and sidecars."""
    waiting: int = 0
    """Ordinary containers and sidecars that never ran."""
    stopped: int = 0
    """Ordinary containers that ended, those about to run again included."""
    stopped_for_good: int = 0
    succeeded: int = 0


def pod_phase(pod: Pod, statuses: Sequence[ContainerStatus], *, terminating: bool, initialized: bool) -> str:
    """Return the phase. ``statuses`` are those of init and ordinary containers.

    ``terminating``: nothing will start again. ``initialized``: ordinary containers were started in the present sandbox,
    so a restarting sidecar does not make the pod Pending again.
    """
    counts = _count(pod, {status.name: status for status in statuses})
    if counts.init_failed:
        return FAILED
    if counts.init_pending or counts.waiting or (counts.sidecars_pending and not initialized):
        return PENDING
    if counts.unknown:
        return PENDING
    if counts.running:
        return RUNNING
    if not counts.stopped:
        return PENDING
    # A static pod may be added again with the same uid, so stopping it does not make it terminal.
    ended_for_good = terminating and not is_static(pod)
    if not ended_for_good and counts.stopped != counts.stopped_for_good:
        return RUNNING
    return SUCCEEDED if counts.stopped == counts.succeeded else FAILED


def started_in_active_sandbox(pod: Pod, runtime: PodRuntimeStatus) -> bool:
    """Return whether an ordinary container was created in the sandbox that is ready now."""
    sandbox = runtime.ready_sandbox
    names = {c.name for c in pod.spec.containers}
    return sandbox is not None and any(c.sandbox_id == sandbox.id and c.name in names for c in runtime.containers)


def _count(pod: Pod, statuses: Mapping[str, ContainerStatus]) -> _Counts:
    counts = _Counts()
    for container in pod.spec.init_containers:
        status = statuses.get(container.name)
        if is_sidecar(container):
            _count_sidecar(counts, status)
        else:
            _count_init(counts, pod, container, status)
    for container in pod.spec.containers:
        _count_ordinary(counts, pod, container, statuses.get(container.name))
    return counts


def _count_init(counts: _Counts, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    ended = _end_of(status)
    if ended is None:
        counts.init_pending += 1
    elif ended.exit_code != 0 and not _runs_again(pod, container, ended):
        counts.init_failed += 1


def _count_sidecar(counts: _Counts, status: ContainerStatus | None) -> None:
    if status is None:
        counts.unknown += 1
        return
    state = status.state or _NO_STATE
    if state.running is not None:
        counts.running += 1
        counts.sidecars_pending += not status.started
    elif state.waiting is not None and _end_of(status) is None:
        counts.sidecars_pending += 1
        counts.waiting += 1
    elif state == _NO_STATE:
        counts.sidecars_pending += 1
        counts.unknown += 1


def _count_ordinary(counts: _Counts, pod: Pod, container: Container, status: ContainerStatus | None) -> None:
    state = (status.state if status else None) or _NO_STATE
    ended = _end_of(status)
    if state.running is not None:
        counts.running += 1
    elif ended is not None:
        counts.stopped += 1
        counts.stopped_for_good += not _runs_again(pod, container, ended)
        counts.succeeded += state.terminated is not None and ended.exit_code == 0
    elif state.waiting is not None:
        counts.waiting += 1
    else:
        counts.unknown += 1


def _end_of(status: ContainerStatus | None) -> ContainerStateTerminated | None:
    """Return how a container ended that does not run: now, or before it began to wait for its restart."""
    if status is None or status.state is None or status.state.running is not None:
        return None
    if status.state.terminated is not None:
        return status.state.terminated
    if status.state.waiting is not None and status.last_state is not None:
        return status.last_state.terminated
    return None


def _runs_again(pod: Pod, container: Container, ended: ContainerStateTerminated) -> bool:
    return ended.reason == RESTARTING_ALL or restarts_after_exit(pod, container, ended.exit_code)
