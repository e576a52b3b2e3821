"""All pod workers: starts one per pod, keeps static pods of one name in their order, forgets those that are gone."""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterable

from pykubelet.base.supervise import RestartPolicy, supervise
from pykubelet.kubelet.control.workers import decide
from pykubelet.kubelet.control.workers.ports import WorkerDeps
from pykubelet.kubelet.control.workers.timers import WakeTimers
from pykubelet.kubelet.control.workers.types import Phase, WorkerState
from pykubelet.kubelet.control.workers.worker import PodWorker
from pykubelet.kubelet.types.ids import PodFullName, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.timeline import Step
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_RESTART = RestartPolicy(initial=1.0, maximum=10.0)


class PodWorkers:
    """The workers of all pods of the node.

    Called by the sync loop only, from the event loop's thread. A worker's own defects are logged and retried by
    :func:`supervise`; they never reach other pods.
    """

    def __init__(self, deps: WorkerDeps) -> None:
        self._deps = deps
        self._workers: dict[PodUID, PodWorker] = {}
        self._waiting: dict[PodFullName, deque[PodUID]] = defaultdict(deque)
        self._active: dict[PodFullName, PodUID] = {}
        self._timers = WakeTimers(deps.clock, self.poke)
        self._group: asyncio.TaskGroup | None = None
        self._ready: list[PodWorker] = []

    async def run(self) -> None:
        """Run the workers until cancelled; cancelling leaves every container as it is."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._timers.run(), name="pod-timers")
            for worker in self._ready:
                self._spawn(worker)
            self._ready.clear()

    def update(self, pod: Pod) -> None:
        """A pod is wanted (new or changed)."""
        uid = PodUID(pod.metadata.uid)
        worker = self._workers.get(uid)
        if worker is None:
            # One that is marked for deletion already is only stopped: the agent was away when it was marked.
            self._add(decide.wanted(WorkerState(ref_of(pod), pod), pod))
        else:
            worker.change(decide.wanted(worker.state, pod))

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        """A pod is wanted but not admitted: it fails at once and is never started.

        It keeps a worker like every other, which takes away what an earlier agent may have left of it.
        """
        uid = PodUID(pod.metadata.uid)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.change(decide.refused(worker.state, pod, reason, message))
            return
        self._deps.status.reject(pod, reason, message)
        self._add(WorkerState(ref_of(pod), pod, phase=Phase.TERMINATING, rejected=True, terminal_reason=reason))

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """The node ends the pod for its own reasons: it is stopped and fails with this reason."""
        if worker := self._workers.get(uid):
            worker.change(decide.failed(worker.state, reason, message, grace_seconds))

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        """A pod is no longer wanted: terminate it and remove every trace."""
        if worker := self._workers.get(uid):
            worker.change(decide.removed(worker.state, grace_seconds))
            self._start_next(worker.state.ref.full_name)

    def adopt_orphan(self, ref: PodRef) -> None:
        """The runtime has a pod that nobody wants: terminate and remove it."""
        if ref.uid not in self._workers:
            _log.info("pod is in the runtime but not wanted, removing it", extra={"pod": ref})
            self._deps.meter.pod_orphaned()
            self._add(WorkerState(ref, None, phase=Phase.TERMINATING, wanted=False))

    def poke(self, uid: PodUID) -> None:
        """The pod's containers may have changed."""
        if worker := self._workers.get(uid):
            worker.poke()

    def poke_all(self) -> None:
        """The runtime came back: no back-off is worth waiting for."""
        for worker in self._workers.values():
            worker.poke()

    def known(self) -> Iterable[PodUID]:
        """Pods that have a worker, whatever their phase: what they hold on the node is not an orphan's."""
        return self._workers.keys()

    def states(self) -> Iterable[WorkerState]:
        """A look at every worker's state."""
        return (w.state for w in self._workers.values())

    def ended(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more."""
        worker = self._workers.get(uid)
        return worker is None or worker.state.phase in (Phase.TERMINATED, Phase.REMOVED)

    def active(self) -> Iterable[Pod]:
        """The pods that admission reckons with."""
        states = [worker.state for worker in self._workers.values() if decide.takes_room(worker.state)]
        return [pod for state in states if (pod := state.restart or state.pod) is not None]

    def _add(self, state: WorkerState) -> None:
        uid = state.ref.uid
        worker = PodWorker(state, self._deps, lambda at: self._timers.set(uid, at))
        self._workers[uid] = worker
        self._deps.timeline.begin(uid, Step.QUEUED)
        self._waiting[state.ref.full_name].append(uid)
        self._start_next(state.ref.full_name)

    def _start_next(self, name: PodFullName) -> None:
        """Start the next pod of that name, unless one of the same name still holds its place.

        Only static pods can follow each other under one name with different uids; their order is kept
        so that an edited manifest first stops the old pod. A pod given up before it started is skipped.
        """
        queue = self._waiting[name]
        while queue and name not in self._active:
            worker = self._workers[queue.popleft()]
            if worker.state.pod is None or is_static(worker.state.pod):
                self._active[name] = worker.state.ref.uid
            self._spawn(worker)
        if not queue:
            self._waiting.pop(name, None)

    def _spawn(self, worker: PodWorker) -> None:
        if self._group is None:
            self._ready.append(worker)
            return
        ref = worker.state.ref
        self._group.create_task(self._live(worker), name=f"pod-worker {ref} {ref.uid}")

    async def _live(self, worker: PodWorker) -> None:
        ref = worker.state.ref
        await supervise(f"pod worker {ref}", worker.run, clock=self._deps.clock, policy=_RESTART)
        self._timers.cancel(ref.uid)
        del self._workers[ref.uid]
        if self._active.get(ref.full_name) == ref.uid:
            del self._active[ref.full_name]
        again, refusal = worker.state.restart, worker.state.restart_refusal
        if again is not None and refusal is not None:
            self.reject(again, *refusal)
        elif again is not None:
            self._deps.meter.pod_restarted(static=is_static(again))
            self.update(again)
        self._start_next(ref.full_name)
