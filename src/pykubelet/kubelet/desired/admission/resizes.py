"""Requested resizes of pods: allocated at once, later, or never (KEP-1287).

Workers run pods with their allocated resources, which change only here. A resize that does not fit now is deferred
until other pods free resources; the pod's condition PodResizePending shows the cause.
"""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.event_times import EventTimes
from pykubelet.kubelet.desired.admission.admission_interfaces import Meter
from pykubelet.kubelet.desired.admission.plan.resize_order import rank
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.admission import AdmissionVerdict
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.resources.resize import (
    Allocations,
    PendingResize,
    PendingResizes,
    ResizeReason,
    RetryTrigger,
    resize_summary,
    with_allocation,
)
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_PENDING: Final = "PodResizePending"


class ResizedPod(Struct, frozen=True):
    """A pod whose allocation or resize condition has changed, with its allocated resources."""

    pod: Pod
    preempts: tuple[PodUID, ...] = ()
    """Pods to be preempted for it; only for critical pods."""


class ResizeDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `Resizes`."""

    allocations: Allocations
    pending: PendingResizes
    judge: Callable[[Pod], AdmissionVerdict]
    """Decides whether the pod fits with the resources of its spec instead of its allocation."""
    infeasible: Callable[[Pod], str]
    """Returns why the resize can never be done on this node; empty: it can."""
    allocated: Callable[[PodUID, AdmissionVerdict], None]
    """Called with a pod whose allocation has changed, and the verdict about it."""
    telemetry: Telemetry[Meter]


class Resizes:
    """The requested resizes that are not allocated yet. Called by `Admission` only."""

    def __init__(self, deps: ResizeDeps) -> None:
        self._deps = deps
        self._requested: dict[PodUID, Pod] = {}
        self._pending = deps.pending
        self._event_times = EventTimes(deps.telemetry.clock)
        self._ranks = Guard("resizes.ranks", deps.telemetry.clock.monotonic)
        self._resizes = Guard("resizes.pods", deps.telemetry.clock.monotonic)

    @property
    def waiting(self) -> bool:
        """Whether a resize may still be allocated later."""
        return bool(self._requested)

    def request(self, pod: Pod) -> None:
        """Record the resize that the pod's spec requests; `grant` decides about it."""
        uid = ref_of(pod).uid
        self._requested[uid] = pod
        if self._pending.get(uid) is None:
            self._recall(pod)

    def drop(self, uid: PodUID) -> None:
        """Forget the pod's resize: its allocation equals its spec, or it is ending."""
        self._event_times.forget(uid)
        self._requested.pop(uid, None)
        self._pending.drop(uid)

    def grant(self, trigger: RetryTrigger) -> list[ResizedPod]:
        """Allocate the resizes that fit now, in the order of ``resize_order.rank``; return the changed pods.

        A resize that raises stays requested and is retried in the next call.
        """
        changed = []
        for uid in self._in_order():
            pod = self._requested[uid]
            with self._resizes.item(uid) as attempt:
                changed.append(self._try(uid, trigger))
            if attempt.error is not None:
                self._requested[uid] = pod
        return [resized for resized in changed if resized is not None]

    def _in_order(self) -> list[PodUID]:
        """Sort the requested resizes, without those whose rank cannot be computed now."""
        now = self._deps.telemetry.clock.monotonic()
        ranks: dict[PodUID, tuple[bool, int, bool, float]] = {}
        for uid, pod in self._requested.items():
            with self._ranks.item(uid):
                pending = self._pending.get(uid)
                since = self._event_times.monotonic(uid, pending.since) if pending is not None else now
                ranks[uid] = rank(pod, self._as_allocated(pod), since)
        return sorted(ranks, key=ranks.__getitem__)

    def _try(self, uid: PodUID, trigger: RetryTrigger) -> ResizedPod | None:
        pod = self._requested[uid]
        reason, message = ResizeReason.INFEASIBLE, self._deps.infeasible(pod)
        if not message:
            verdict = self._deps.judge(pod)
            if verdict.admitted:
                waited = self._pending.get(uid)
                if waited is not None and waited.reason is ResizeReason.DEFERRED:
                    self._deps.telemetry.metrics.resize_accepted(trigger)
                return self._allocate(uid, pod, verdict)
            reason, message = ResizeReason.DEFERRED, verdict.message
        else:
            del self._requested[uid]
        return self._wait(uid, pod, reason, message)

    def _allocate(self, uid: PodUID, pod: Pod, verdict: AdmissionVerdict) -> ResizedPod:
        self.drop(uid)
        self._deps.allocations.set(pod)
        self._deps.allocated(uid, verdict)
        _log.info("pod resize: allocated", extra={"pod": str(ref_of(pod)), "uid": uid})
        text = f"Pod resize started: {resize_summary(pod, pod.metadata.generation)}"
        self._deps.telemetry.events.event(ref_of(pod), NORMAL, Reason.RESIZE_STARTED, text)
        return ResizedPod(pod, verdict.preempts)

    def _wait(self, uid: PodUID, pod: Pod, reason: ResizeReason, message: str) -> ResizedPod | None:
        before, generation = self._pending.get(uid), pod.metadata.generation
        since = before.since if before is not None else self._deps.telemetry.clock.now()
        self._event_times.monotonic(
            uid, since
        )  # recorded now, since the wall clock may jump before the resizes are sorted
        now = PendingResize(reason, message, generation, since)
        self._pending.put(uid, now)
        if before == now:
            return None
        if before is None or (before.reason, before.generation) != (reason, generation):
            kind = Reason.RESIZE_INFEASIBLE if reason is ResizeReason.INFEASIBLE else Reason.RESIZE_DEFERRED
            text = f"Pod resize {reason}: {resize_summary(pod, generation, message)}"
            self._deps.telemetry.events.event(ref_of(pod), WARNING, kind, text)
        return ResizedPod(self._as_allocated(pod))

    def _as_allocated(self, pod: Pod) -> Pod:
        return with_allocation(pod, self._deps.allocations.get(ref_of(pod).uid))

    def _recall(self, pod: Pod) -> None:
        """Restore a pending resize from the pod's own status after a restart of the agent."""
        for condition in pod.status.conditions:
            if condition.type == _PENDING and condition.reason in tuple(ResizeReason):
                at = condition.last_transition_time
                self._pending.put(
                    ref_of(pod).uid,
                    PendingResize(
                        ResizeReason(condition.reason),
                        condition.message,
                        condition.observed_generation,
                        at.timestamp() if at is not None else self._deps.telemetry.clock.now(),
                    ),
                )
