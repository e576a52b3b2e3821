"""The cost of ``explain`` for the start of a pod: ``python -m benchmarks.decisions``; needs no root and no runtime.

One start is an admission and three syncs: nothing exists, then the sandbox, then all containers run. ``decide`` is the
computation of the actions with their reasons, which is done in any case; ``record`` is what is done for the journal
alone.
"""

import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.control.workers.plan.decisions import step_decisions
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.types.admission import ADMITTED
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.reports.decisions import Decision
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.models.core_v1 import Container, Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta

_STARTS: Final = 2000
_PODS: Final = 100


def main() -> None:
    """Print the figures."""
    for number in (1, 5):
        pod = _pod(number)
        states = _states(pod)
        syncs = [compute_pod_actions(pod, state, {}).decisions for state in states]
        decide = _micros(partial(_decide, pod, states))
        record = _micros(partial(_record, DecisionJournal(SystemClock()), pod, PodUID("u"), syncs))
        print(f"{number} containers: decide {decide:.0f} µs, record {record:.0f} µs a start")
    tracemalloc.start()
    journal, pod = DecisionJournal(SystemClock()), _pod(1)
    for number in range(_PODS):
        syncs = [compute_pod_actions(pod, state, {}).decisions for state in _states(pod)]
        _record(journal, pod, PodUID(f"uid-{number}"), syncs)
    print(f"memory of the journals of {_PODS} pods: {tracemalloc.get_traced_memory()[0] / 1024:.0f} KiB")


def start_decisions(pod: Pod) -> list[tuple[Decision, ...]]:
    """Return the decisions of a pod's admission and of its three syncs, as the journal gets them."""
    worker = WorkerState(ref_of(pod), pod)
    syncs = [compute_pod_actions(pod, state, {}).decisions for state in _states(pod)]
    return [(ADMITTED.decision,), *(step_decisions(Phase.SYNC, StepResult(decisions=each), worker) for each in syncs)]


def _decide(pod: Pod, states: Sequence[PodRuntimeStatus]) -> None:
    for state in states:
        compute_pod_actions(pod, state, {})


def _record(journal: DecisionJournal, pod: Pod, uid: PodUID, syncs: Sequence[tuple[Decision, ...]]) -> None:
    journal.add(uid, (ADMITTED.decision,))
    worker = WorkerState(ref_of(pod), pod)
    for decisions in syncs:
        journal.synced(uid, step_decisions(Phase.SYNC, StepResult(decisions=decisions), worker))


def _micros(work: Callable[[], None]) -> float:
    begun = time.process_time()
    for _ in range(_STARTS):
        work()
    return (time.process_time() - begun) / _STARTS * 1e6


def _pod(containers: int) -> Pod:
    spec = PodSpec(containers=tuple(Container(name=f"c{n}", image="busybox") for n in range(containers)))
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u"), spec=spec)


def _states(pod: Pod) -> list[PodRuntimeStatus]:
    ref, box = ref_of(pod), SandboxID("s")
    sandbox = SandboxStatus(id=box, ready=True, attempt=0, created_at=1.0, ips=("10.0.0.1",))
    running = tuple(
        ContainerStatus(
            id=ContainerID(c.name),
            name=c.name,
            sandbox_id=box,
            state=ContainerState.RUNNING,
            hash=container_hash(c),
        )
        for c in pod.spec.containers
    )
    return [
        PodRuntimeStatus(ref=ref),
        PodRuntimeStatus(ref=ref, sandboxes=(sandbox,)),
        PodRuntimeStatus(ref=ref, sandboxes=(sandbox,), containers=running),
    ]


if __name__ == "__main__":
    main()
