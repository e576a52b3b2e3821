"""Wishes of pods for another size: granted at once, later, or never (KEP-1287).

Workers run pods as they were allotted; a wish changes that only here. One that does not fit now waits until somebody
else gives room back, and what it waits for is shown in the pod's condition PodResizePending.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.moments import Moments
from pykubelet.kubelet.desired.admission.decide_resize import rank
from pykubelet.kubelet.types.admission import Verdict
from pykubelet.kubelet.types.events import NORMAL, WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resize import (
    Allocations,
    PendingResize,
    ResizeReason,
    Retry,
    resize_summary,
    with_allocation,
)
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_PENDING: Final = "PodResizePending"


@dataclass(frozen=True, slots=True)
class Resized:
    """A pod whose allotment or whose condition has changed, as it is to be run."""

    pod: Pod
    preempts: tuple[PodUID, ...] = ()
    """Pods that have to go for it; only for critical pods."""


@dataclass(frozen=True, slots=True)
class ResizeDeps:
    """What it acts through."""

    allotments: Allocations
    judge: Callable[[Pod], Verdict]
    """Whether the pod fits as its spec says, in place of what it has."""
    infeasible: Callable[[Pod], str]
    """Why the node can never give that; empty if it can."""
    allotted: Callable[[PodUID], None]
    """The pod was given another size."""
    events: EventRecorder
    clock: Clock
    accepted: Callable[[str], None]
    """A pod was given a size that it had to wait for; the argument says what the wait ended with."""


class Resizes:
    """The wishes that are not granted yet. Called by `Admission` only."""

    def __init__(self, deps: ResizeDeps) -> None:
        self._deps = deps
        self._wishes: dict[PodUID, Pod] = {}
        self._pending: dict[PodUID, PendingResize] = {}
        self._moments = Moments(deps.clock)

    def pending(self, uid: PodUID) -> PendingResize | None:
        """Why the pod does not have what its spec says."""
        return self._pending.get(uid)

    @property
    def waiting(self) -> bool:
        """Whether any wish may be granted later."""
        return bool(self._wishes)

    def wish(self, pod: Pod) -> None:
        """The pod wants another size than it has; `grant` looks at it."""
        uid = ref_of(pod).uid
        self._wishes[uid] = pod
        if uid not in self._pending:
            self._recall(pod)

    def drop(self, uid: PodUID) -> None:
        """The pod has what it wants, or wants nothing any more."""
        self._moments.forget(uid)
        self._wishes.pop(uid, None)
        self._pending.pop(uid, None)

    def grant(self, trigger: Retry) -> list[Resized]:
        """Grant what fits now, in the order of :func:`decide_resize.rank`; gives the pods concerned."""
        changed = [self._try(uid, trigger) for uid in self._in_order()]
        return [resized for resized in changed if resized is not None]

    def _in_order(self) -> list[PodUID]:
        now = self._deps.clock.monotonic()

        def key(uid: PodUID) -> tuple[bool, int, bool, float]:
            pod, pending = self._wishes[uid], self._pending.get(uid)
            since = self._moments.monotonic(uid, pending.since) if pending is not None else now
            return rank(pod, self._as_allotted(pod), since)

        return sorted(self._wishes, key=key)

    def _try(self, uid: PodUID, trigger: Retry) -> Resized | None:
        pod = self._wishes[uid]
        reason, message = ResizeReason.INFEASIBLE, self._deps.infeasible(pod)
        if not message:
            verdict = self._deps.judge(pod)
            if verdict.admitted:
                waited = self._pending.get(uid)
                if waited is not None and waited.reason is ResizeReason.DEFERRED:
                    self._deps.accepted(trigger)
                return self._allot(uid, pod, verdict)
            reason, message = ResizeReason.DEFERRED, verdict.message
        else:
            del self._wishes[uid]
        return self._wait(uid, pod, reason, message)

    def _allot(self, uid: PodUID, pod: Pod, verdict: Verdict) -> Resized:
        self.drop(uid)
        self._deps.allotments.set(pod)
        self._deps.allotted(uid)
        _log.info("pod resize allotted", extra={"pod": str(ref_of(pod)), "uid": uid})
        text = f"Pod resize started: {resize_summary(pod, pod.metadata.generation)}"
        self._deps.events.event(ref_of(pod), NORMAL, Reason.RESIZE_STARTED, text)
        return Resized(pod, verdict.preempts)

    def _wait(self, uid: PodUID, pod: Pod, reason: ResizeReason, message: str) -> Resized | None:
        before, generation = self._pending.get(uid), pod.metadata.generation
        since = before.since if before is not None else self._deps.clock.now()
        self._moments.monotonic(uid, since)  # from here on, though the clock may jump before they are put in order
        now = self._pending[uid] = PendingResize(reason, message, generation, since)
        if before == now:
            return None
        if before is None or (before.reason, before.generation) != (reason, generation):
            kind = Reason.RESIZE_INFEASIBLE if reason is ResizeReason.INFEASIBLE else Reason.RESIZE_DEFERRED
            text = f"Pod resize {reason}: {resize_summary(pod, generation, message)}"
            self._deps.events.event(ref_of(pod), WARNING, kind, text)
        return Resized(self._as_allotted(pod))

    def _as_allotted(self, pod: Pod) -> Pod:
        return with_allocation(pod, self._deps.allotments.get(ref_of(pod).uid))

    def _recall(self, pod: Pod) -> None:
        """After a restart of the agent the pod's own status says how long it has been waiting."""
        for condition in pod.status.conditions:
            if condition.type == _PENDING and condition.reason in tuple(ResizeReason):
                at = condition.last_transition_time
                self._pending[ref_of(pod).uid] = PendingResize(
                    ResizeReason(condition.reason),
                    condition.message,
                    condition.observed_generation,
                    at.timestamp() if at is not None else self._deps.clock.now(),
                )
