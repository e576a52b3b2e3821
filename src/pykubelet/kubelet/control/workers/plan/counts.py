"""Counts of the pods that have a worker, for metrics."""

from collections import Counter
from collections.abc import Iterable, Mapping

from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.reports.pod_counts import Lifecycle, PodConfig, WorkingPods
from pykubelet.kubelet.types.updates import is_static

_LIFECYCLES = {
    Phase.SYNC: Lifecycle.SYNC,
    Phase.TERMINATING: Lifecycle.TERMINATING,
    Phase.TERMINATED: Lifecycle.TERMINATED,
    Phase.REMOVED: Lifecycle.TERMINATED,
}
_LABELS = tuple(
    WorkingPods(lifecycle, config, static)
    for lifecycle in Lifecycle
    for config in PodConfig
    for static in (("unknown",) if config is PodConfig.RUNTIME_ONLY else ("", "true"))
)


def count_working(states: Iterable[WorkerState]) -> Mapping[WorkingPods, int]:
    """Count all pods with a worker, by their labels; labels without pods too, as upstream."""
    counted = Counter(_labels(state) for state in states)
    return {labels: counted[labels] for labels in _LABELS}


def count_active(states: Iterable[WorkerState]) -> Mapping[bool, int]:
    """Count the pods that a source lists and that are to run, by whether they are static."""
    active = (s.pod for s in states if s.pod is not None and s.wanted and s.phase is Phase.SYNC)
    return Counter(is_static(pod) for pod in active)


def _labels(state: WorkerState) -> WorkingPods:
    lifecycle = _LIFECYCLES[state.phase]
    if state.pod is None:
        return WorkingPods(lifecycle, PodConfig.RUNTIME_ONLY, "unknown")
    config = PodConfig.DESIRED if state.wanted else PodConfig.ORPHAN
    return WorkingPods(lifecycle, config, "true" if is_static(state.pod) else "")
