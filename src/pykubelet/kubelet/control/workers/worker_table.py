"""The pod workers by pod: how other components read their states, and how a component of the node ends a pod.

It is apart from `PodWorkers`, which runs the workers and adds and drops them, since what ends pods also has to be there
before what starts them: workers need the probes, admission the node's pressure, and eviction the workers.
"""

from collections.abc import Iterable

from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.pod_worker import PodWorker
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod


class WorkerTable:
    """The workers of all pods on the node. For the event loop's thread."""

    def __init__(self) -> None:
        self._workers: dict[PodUID, PodWorker] = {}

    def add(self, worker: PodWorker) -> None:
        """Add the worker of a pod that has none. Called by `PodWorkers` only, as `drop` is."""
        self._workers[worker.state.ref.uid] = worker

    def drop(self, uid: PodUID) -> None:
        """Drop the worker of a pod."""
        del self._workers[uid]

    def get(self, uid: PodUID) -> PodWorker | None:
        """Return the worker of a pod; None: it has none."""
        return self._workers.get(uid)

    @property
    def workers(self) -> Iterable[PodWorker]:
        """All workers."""
        return self._workers.values()

    @property
    def known(self) -> Iterable[PodUID]:
        """The pods that have a worker, whatever their phase; none of them is an orphan."""
        return self._workers.keys()

    @property
    def states(self) -> Iterable[WorkerState]:
        """The current state of every worker."""
        return (worker.state for worker in self._workers.values())

    def state(self, uid: PodUID) -> WorkerState | None:
        """Return the state of a pod's worker; None: it has none."""
        worker = self._workers.get(uid)
        return worker.state if worker is not None else None

    def fail(
        self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None, *, disrupts: bool = True
    ) -> None:
        """Stop a pod for a reason of the node (preemption, eviction, shutdown); it fails with this reason.

        ``disrupts``: it gets the condition DisruptionTarget, since it fails for the node's sake.
        """
        if worker := self._workers.get(uid):
            worker.change(lifecycle.failed(worker.state, reason, message, grace_seconds, disrupts=disrupts))

    def active(self) -> Iterable[Pod]:
        """Return the pods whose requests admission counts."""
        states = [state for state in self.states if lifecycle.is_active(state)]
        return [pod for state in states if (pod := state.restart or state.pod) is not None]

    def evictable(self, grace_seconds: int) -> Iterable[Pod]:
        """Return the pods that would end sooner if they were evicted with this grace period."""
        states = [state for state in self.states if lifecycle.is_evictable(state, grace_seconds)]
        return [state.pod for state in states if state.pod is not None]

    def running(self) -> list[Pod]:
        """Return the pods whose containers may run, those that are being stopped included."""
        return [state.pod for state in self.states if state.pod is not None and lifecycle.may_run(state)]

    def terminated(self) -> list[PodUID]:
        """Return the pods that have ended and are not being removed."""
        return [state.ref.uid for state in self.states if state.phase is Phase.TERMINATED]

    def evicted(self) -> frozenset[PodUID]:
        """Return the pods that were evicted."""
        return frozenset(state.ref.uid for state in self.states if state.evicted)

    def ended(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more."""
        state = self.state(uid)
        return state is None or state.phase in (Phase.TERMINATED, Phase.REMOVED)

    def released(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more, and its volumes and cgroup are released."""
        state = self.state(uid)
        return state is None or lifecycle.is_released(state)
