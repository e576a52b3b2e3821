"""Runs the pod workers: starts one per pod, starts static pods of one name in order, drops finished workers."""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterable
from functools import partial

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.supervise import RestartPolicy, supervise
from pykubelet.base.units import Seconds
from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.pod_worker import PodWorker
from pykubelet.kubelet.control.workers.steps import PodSteps
from pykubelet.kubelet.control.workers.timers import WakeTimers
from pykubelet.kubelet.control.workers.worker_interfaces import WorkerDeps
from pykubelet.kubelet.control.workers.worker_table import WorkerTable
from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import PodFullName, PodRef, PodUID, ref_of
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_RESTART = RestartPolicy(initial=1.0, maximum=10.0)
_ORPHAN_GRACE_SECONDS = 1


class PodWorkers:
    """The workers of all pods on the node.

    Called by the sync loop and housekeeping, from the event loop's thread; others read the table. An unexpected
    exception in a worker is logged and the worker restarted by :func:`supervise`; other pods are not affected.
    """

    def __init__(self, deps: WorkerDeps, table: WorkerTable) -> None:
        """``table`` is empty; it gets the workers."""
        self._status = deps.status
        self._journal = deps.journal
        self._telemetry = deps.telemetry
        self._steps = PodSteps(
            runtime=deps.runtime,
            resources=deps.resources,
            probes=deps.probes,
            status=deps.status,
            conditions=deps.conditions,
            telemetry=deps.telemetry,
            watch_closely=deps.watch_closely,
        )
        self._table = table
        self._waiting: dict[PodFullName, deque[PodUID]] = defaultdict(deque)
        self._active: dict[PodFullName, PodUID] = {}
        self._timers = WakeTimers(deps.telemetry.clock, self.poke)
        self._guard = Guard("workers.ends", deps.telemetry.clock.monotonic)
        self._group: asyncio.TaskGroup | None = None
        self._unstarted: list[PodWorker] = []

    async def run(self) -> None:
        """Run the workers until cancelled; cancelling leaves every container running."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._timers.run(), name="pod-timers")
            for worker in self._unstarted:
                self._spawn(worker)
            self._unstarted.clear()

    def update(self, pod: Pod) -> None:
        """Run a new pod, or apply a new version of one."""
        uid = PodUID(pod.metadata.uid)
        worker = self._table.get(uid)
        if worker is None:
            # A pod marked for deletion while the agent did not run is only stopped.
            self._add(lifecycle.wanted(WorkerState(ref_of(pod), pod), pod))
        else:
            worker.change(lifecycle.wanted(worker.state, pod))

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        """Fail a pod that was not admitted; it is never started.

        It has a worker like every other pod, which removes what an earlier run of the agent may have left of it.
        """
        uid = PodUID(pod.metadata.uid)
        worker = self._table.get(uid)
        if worker is not None:
            worker.change(lifecycle.refused(worker.state, pod, reason, message))
            return
        self._status.reject(pod, reason, message)
        self._add(WorkerState(ref_of(pod), pod, phase=Phase.TERMINATING, rejected=True, terminal_reason=reason))

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Stop a pod for a reason of the node (preemption); it fails with this reason."""
        self._table.fail(uid, reason, message, grace_seconds)

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        """Terminate and remove a pod that its source no longer lists."""
        if worker := self._table.get(uid):
            worker.change(lifecycle.removed(worker.state, grace_seconds))
            self._start_next(worker.state.ref.full_name)

    def adopt_orphan(self, ref: PodRef) -> None:
        """Terminate and remove a pod that the runtime has and no source lists.

        As upstream (``SyncTerminatingRuntimePod``), its containers get the minimum grace period and no hook.
        """
        if self._table.get(ref.uid) is None:
            _log.info("pod worker: removing an orphaned pod of the runtime", extra={"pod": ref})
            self._telemetry.metrics.pod_orphaned()
            self._add(
                WorkerState(ref, None, phase=Phase.TERMINATING, wanted=False, grace_seconds=_ORPHAN_GRACE_SECONDS)
            )

    def poke(self, uid: PodUID, *, probed: bool = False) -> None:
        """Wake the pod's worker: its containers may have changed.

        ``probed``: a probe has a new result, which is reported even while the pod is being stopped.
        """
        if probed:
            self._steps.report_readiness(uid)
        if worker := self._table.get(uid):
            worker.poke()

    def poke_all(self) -> None:
        """Wake every worker, whatever its back-off: the runtime responds again."""
        for worker in self._table.workers:
            worker.poke()

    @property
    def known(self) -> Iterable[PodUID]:
        """The pods that have a worker, whatever their phase; none of them is an orphan."""
        return self._table.known

    def state(self, uid: PodUID) -> WorkerState | None:
        """Return the state of a pod's worker; None: it has none."""
        return self._table.state(uid)

    def next_sync(self, uid: PodUID) -> Seconds | None:
        """Return the monotonic time at which the pod is synced at the latest; None: it waits for an event, or a step
        is being taken."""
        return self._timers.due(uid)

    def _add(self, state: WorkerState) -> None:
        uid = state.ref.uid
        worker = PodWorker(
            state,
            take_step=self._steps.take,
            set_timer=partial(self._timers.set, uid),
            journal=self._journal,
            telemetry=self._telemetry,
        )
        self._table.add(worker)
        self._telemetry.timeline.begin(uid, Step.QUEUED)
        self._waiting[state.ref.full_name].append(uid)
        self._start_next(state.ref.full_name)

    def _start_next(self, name: PodFullName) -> None:
        """Start the next pod of that name, unless a static pod of the same name still exists.

        Only static pods can follow each other under one name with different uids; they run one after the other, so
        that an edited manifest first stops the old pod. A pod removed before it started is skipped.
        """
        queue = self._waiting[name]
        while queue and name not in self._active:
            worker = self._table.get(queue.popleft())
            assert worker is not None, "it waits for this"
            if worker.state.pod is None or is_static(worker.state.pod):
                self._active[name] = worker.state.ref.uid
            self._spawn(worker)
        if not queue:
            self._waiting.pop(name, None)

    def _spawn(self, worker: PodWorker) -> None:
        if self._group is None:
            self._unstarted.append(worker)
            return
        ref = worker.state.ref
        self._group.create_task(self._run_worker(worker), name=f"pod-worker {ref} {ref.uid}")

    async def _run_worker(self, worker: PodWorker) -> None:
        ref = worker.state.ref
        name = f"pod worker {ref}"
        await supervise("workers.pods", name, worker.run, clock=self._telemetry.clock, policy=_RESTART)
        with self._guard.item(str(ref)):
            self._drop(worker)
        with self._guard.item(ref.full_name):
            self._start_next(ref.full_name)

    def _drop(self, worker: PodWorker) -> None:
        """Forget a pod that is gone, unless it is wanted again meanwhile."""
        ref = worker.state.ref
        self._timers.cancel(ref.uid)
        self._table.drop(ref.uid)
        if self._active.get(ref.full_name) == ref.uid:
            del self._active[ref.full_name]
        again, refusal = worker.state.restart, worker.state.restart_refusal
        if again is None:
            self._journal.forget(ref.uid)
        if again is not None and refusal is not None:
            self.reject(again, *refusal)
        elif again is not None:
            self._telemetry.metrics.pod_restarted(static=is_static(again))
            self.update(again)
