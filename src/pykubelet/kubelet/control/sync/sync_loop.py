"""The sync loop: one queue with one reader that never waits for a pod.

Every event arrives as a value in the queue; the loop records the desired pods and wakes the workers concerned. It
never awaits a runtime call, so a stuck pod cannot delay it.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from pykubelet.base.concurrency.guard import Guard
from pykubelet.kubelet.control.sync.events import (
    EventQueue,
    LoopEvent,
    NodeRead,
    PeriodicRetry,
    PodsAffected,
    RuntimeRecovered,
)
from pykubelet.kubelet.control.sync.sync_interfaces import LoopDeps
from pykubelet.kubelet.types.admission import NODE_AFFINITY, PREEMPTION_MESSAGE, AdmissionVerdict
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.probes import ProbeUpdate
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.resources.resize import RetryTrigger
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent
from pykubelet.kubelet.types.updates import PodOp, PodUpdate, is_mirror
from pykubelet.models.core_v1 import Pod

_FITS_NOW = AdmissionVerdict(rule="it fits now that another pod has been removed").decision
_STILL_DUE: Final = {
    PodOp.ADD: (PodOp.UPDATE, PodOp.RECONCILE),
    PodOp.UPDATE: (PodOp.RECONCILE,),
    PodOp.DELETE: (PodOp.RECONCILE,),
}
"""Operations that do not replace a failed one: it is done with their pod, so that none runs without admission."""


class SyncLoop:
    """The reader of the queue, through which every stage posts its events."""

    def __init__(self, deps: LoopDeps, queue: EventQueue) -> None:
        self._deps = deps
        self._events = Guard("sync-loop.events", deps.telemetry.clock.monotonic)
        self._pods = Guard("sync-loop.pods", deps.telemetry.clock.monotonic)
        self._failed: dict[PodUID, tuple[PodOp, Pod]] = {}
        """The last update of each pod whose handling failed; retried unless a newer one replaces it."""
        self._unsure: dict[PodUID, tuple[int, Pod]] = {}
        """New pods that the node's labels keep out, with the request to read the Node object again."""
        self._queue = queue
        self.last_active = deps.telemetry.clock.monotonic()
        """Monotonic time at which the loop last finished an event."""

    def is_stuck(self, limit_seconds: float) -> bool:
        """Whether events have waited for longer than the limit without one being handled."""
        if self._queue.empty():
            return False
        # Without events the loop is not active either: only the time since one arrived counts.
        waiting_since = max(self.last_active, self._queue.filled_at)
        return self._deps.telemetry.clock.monotonic() - waiting_since > limit_seconds

    def fault(self, limit_seconds: float) -> str | None:
        """Return why the loop is not healthy, or None; the limit is that of :meth:`is_stuck`."""
        return "the sync loop is not handling events" if self.is_stuck(limit_seconds) else None

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            event = await self._queue.get()
            with self._events.item(type(event).__name__):
                self.handle(event)
            self.last_active = self._deps.telemetry.clock.monotonic()

    def handle(self, event: LoopEvent) -> None:
        """Act on one event: record the desired pods, wake the workers concerned."""
        match event:
            case PodUpdate():
                self._apply(event)
            case PodLifecycleEvent(type=PodEventType.CONTAINER_REMOVED):
                pass  # Only the agent removes containers, so the pod's worker knows already.
            case PodLifecycleEvent(uid=uid):
                self._deps.workers.poke(uid)
            case ProbeUpdate(uid=uid):
                self._deps.journal.add(uid, (event.decision,))
                self._deps.workers.poke(uid, probed=True)
            case PodsAffected(uids=uids):
                self._poke(uids)
            case NodeRead(request=request):
                self._admit_unsure(request)
            case RuntimeRecovered():
                self._deps.workers.poke_all()
            case PeriodicRetry():
                self._retry()
                self._reconsider()
                self._grant(RetryTrigger.PERIODIC)
            case _:
                assert_never(event)

    def _poke(self, uids: Iterable[PodUID]) -> None:
        for uid in uids:
            self._deps.workers.poke(uid)

    def _apply(self, update: PodUpdate) -> None:
        if update.op is PodOp.ADD:
            for pod in self._deps.admission.in_order(update.pods):
                self._handle_pod(update.op, pod)
            self._grant(RetryTrigger.PODS_ADDED)
            return
        for pod in update.pods:
            self._handle_pod(update.op, pod)
        if update.op is PodOp.REMOVE:
            self._reconsider()
        self._grant(RetryTrigger.PODS_REMOVED if update.op is PodOp.REMOVE else RetryTrigger.POD_UPDATED)

    def _handle_pod(self, op: PodOp, pod: Pod) -> None:
        """Handle an update of one pod; an update that raises is retried with the next one or `PeriodicRetry`."""
        uid = PodUID(pod.metadata.uid)
        failed, _ = self._failed.pop(uid, (op, pod))
        if op in _STILL_DUE.get(failed, ()):
            op = failed
        with self._pods.item(uid) as attempt:
            self._update(op, pod)
        if attempt.error is not None:
            self._failed[uid] = op, pod

    def _retry(self) -> None:
        for op, pod in list(self._failed.values()):
            if self._pods.is_due(pod.metadata.uid):
                self._handle_pod(op, pod)

    def _update(self, op: PodOp, pod: Pod) -> None:
        uid = PodUID(pod.metadata.uid)
        match op:
            case PodOp.ADD:
                self._add(pod)
            case PodOp.UPDATE | PodOp.DELETE:
                self._deps.pods.set(pod)
                if uid in self._unsure:
                    self._unsure[uid] = self._unsure[uid][0], pod
                elif not is_mirror(pod):
                    self._deps.workers.update(self._deps.admission.updated(pod))
            case PodOp.REMOVE:
                self._unsure.pop(uid, None)
                self._deps.admission.forget(uid)
                self._deps.pods.remove(uid)
                self._deps.workers.remove(uid)
            case PodOp.RECONCILE:
                self._deps.pods.set(pod)
            case _:
                assert_never(op)

    def _reconsider(self) -> None:
        """Restart rejected pods that fit on the node now that another pod has been removed or has ended."""
        for pod in self._deps.admission.reconsider():
            uid = PodUID(pod.metadata.uid)
            with self._pods.item(uid) as attempt:
                self._deps.journal.add(uid, (_FITS_NOW,))
                self._deps.workers.remove(uid)
                self._deps.workers.update(pod)
            if attempt.error is not None:
                self._failed[uid] = PodOp.ADD, pod

    def _grant(self, trigger: RetryTrigger) -> None:
        """Allocate deferred resizes that fit on the node now; cheap if no resize is pending.

        A worker whose update raises gets the allocated size with the next update of its pod.
        """
        for resized in self._deps.admission.grant(trigger):
            with self._pods.item(f"{resized.pod.metadata.uid}: resize"):
                self._preempt(resized.preempts)
                self._deps.workers.update(resized.pod)

    def _preempt(self, victims: Iterable[PodUID]) -> None:
        for victim in victims:
            self._deps.workers.fail(victim, Reason.PREEMPT_CONTAINER, PREEMPTION_MESSAGE)

    def _add(self, pod: Pod) -> None:
        """Admit a pod that is new to the node and start its worker, or reject it."""
        deps = self._deps
        if is_mirror(pod):
            deps.pods.set(pod)
            return
        deps.telemetry.timeline.pod_seen(pod)
        deps.pods.set(pod)
        if deps.admission.admit(pod, final=False).reason == NODE_AFFINITY:
            request = deps.node.request()
            if request is not None:
                self._unsure[PodUID(pod.metadata.uid)] = request, pod
                return
        self._admit(pod)

    def _admit_unsure(self, request: int) -> None:
        """Admit the pods that waited for the Node object to be read again."""
        ready = {uid: pod for uid, (asked, pod) in self._unsure.items() if asked <= request}
        for uid in ready:
            del self._unsure[uid]
        for pod in self._deps.admission.in_order(ready.values()):
            uid = PodUID(pod.metadata.uid)
            with self._pods.item(uid) as attempt:
                self._admit(pod)
            if attempt.error is not None:
                self._failed[uid] = PodOp.ADD, pod

    def _admit(self, pod: Pod) -> None:
        deps = self._deps
        verdict = deps.admission.admit(pod)
        deps.journal.add(PodUID(pod.metadata.uid), (verdict.decision,))
        if not verdict.admitted:
            deps.workers.reject(pod, verdict.reason, verdict.message)
            return
        deps.pods.admitted(pod)
        self._preempt(verdict.preempts)
        deps.workers.update(deps.admission.updated(pod))
