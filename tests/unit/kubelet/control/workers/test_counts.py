"""Counts of pods with a worker."""

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.control.workers.plan.counts import count_active, count_working
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.reports.pod_counts import Lifecycle, PodConfig, WorkingPods
from tests.unit.kubelet.control.fakes import make_pod

STATIC = WorkerState(ref_of(make_pod("s")), make_pod("s"))
OF_API = WorkerState(ref_of(make_pod("a")), make_pod("a", source="api"))
ORPHAN = replace(STATIC, pod=None, wanted=False, phase=Phase.TERMINATING)


@pytest.mark.parametrize(
    ("state", "labels"),
    [
        (STATIC, WorkingPods(Lifecycle.SYNC, PodConfig.DESIRED, "true")),
        (OF_API, WorkingPods(Lifecycle.SYNC, PodConfig.DESIRED, "")),
        (
            replace(OF_API, wanted=False, phase=Phase.TERMINATING),
            WorkingPods(Lifecycle.TERMINATING, PodConfig.ORPHAN, ""),
        ),
        (replace(STATIC, phase=Phase.TERMINATED), WorkingPods(Lifecycle.TERMINATED, PodConfig.DESIRED, "true")),
        (
            replace(STATIC, wanted=False, phase=Phase.REMOVED),
            WorkingPods(Lifecycle.TERMINATED, PodConfig.ORPHAN, "true"),
        ),
        (ORPHAN, WorkingPods(Lifecycle.TERMINATING, PodConfig.RUNTIME_ONLY, "unknown")),
    ],
)
def test_labels_of_a_pod_follow_its_worker(state: WorkerState, labels: WorkingPods) -> None:
    assert {found: number for found, number in count_working([state, state]).items() if number} == {labels: 2}


def test_labels_without_pods_count_zero() -> None:
    """As in upstream, so that queries need no case for a missing series."""
    static = [(config, static) for config in (PodConfig.DESIRED, PodConfig.ORPHAN) for static in ("", "true")]
    kinds = [*static, (PodConfig.RUNTIME_ONLY, "unknown")]
    assert count_working([]) == {WorkingPods(lifecycle, *kind): 0 for lifecycle in Lifecycle for kind in kinds}


def test_active_pods_are_listed_and_not_ending() -> None:
    ending = replace(STATIC, phase=Phase.TERMINATING)
    removed = replace(OF_API, wanted=False)
    assert count_active([STATIC, OF_API, OF_API, ending, removed, ORPHAN]) == {True: 1, False: 2}
