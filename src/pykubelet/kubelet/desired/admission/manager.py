"""Applies the rules to each pod as it comes, remembers the verdicts, and tells about those turned away."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.admission.decide import decide, for_want_of_room
from pykubelet.kubelet.desired.admission.decide_fit import needs_of
from pykubelet.kubelet.desired.admission.decide_resize import held, never_fits, swap_is_in_the_way
from pykubelet.kubelet.desired.admission.interfaces import Meter
from pykubelet.kubelet.desired.admission.resizes import Resized, ResizeDeps, Resizes
from pykubelet.kubelet.desired.admission.types import Needs, NodeFacts
from pykubelet.kubelet.types.admission import ADMITTED, PREEMPTION_MESSAGE, Verdict
from pykubelet.kubelet.types.events import WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resize import Allocations, PendingResize, Retry, with_allocation
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class AdmissionDeps:
    """What admission asks and tells."""

    node: Callable[[], NodeFacts]
    sysctl_refusal: Callable[[Pod], str | None]
    active: Callable[[], Iterable[Pod]]
    """Pods that take room: wanted, let in, and not ended."""
    events: EventRecorder
    meter: Meter
    allotments: Allocations
    clock: Clock
    swapping: Callable[[Pod], frozenset[str]] = lambda pod: frozenset()
    """The pod's containers that may swap."""


class Admission:
    """Called by the sync loop only, from one thread; never waits.

    A pod that an earlier agent let in is let in again, whatever has become of the node since: it may be running. It is
    known by what it has on disk, so a pod turned away leaves nothing there.
    """

    def __init__(self, deps: AdmissionDeps) -> None:
        self._deps = deps
        self._before: frozenset[PodUID] = frozenset()
        self._verdicts: dict[PodUID, Verdict] = {}
        self._needs: dict[PodUID, Needs] = {}
        self._waiting: dict[PodUID, Pod] = {}
        asked = self._judge_resize, self._infeasible, self._forget_needs
        told = deps.meter.resize_accepted
        self._resizes = Resizes(ResizeDeps(deps.allotments, *asked, deps.events, deps.clock, told))

    def admitted_before(self, uids: Iterable[PodUID]) -> None:
        """Take note of the pods that an earlier agent let in; before the first pod comes."""
        self._before = frozenset(uids)

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods that came together in the order in which they are let in: those let in before, then the oldest."""
        return sorted(pods, key=lambda pod: (PodUID(pod.metadata.uid) not in self._before, _created(pod)))

    def admit(self, pod: Pod) -> Verdict:
        """Whether the pod may run, with what it was allotted. Asked again about the same pod it says the same."""
        uid = ref_of(pod).uid
        known = self._verdicts.get(uid)
        if known is None:
            allotted = self.allotted(pod)
            known = self._verdicts[uid] = self._judge(allotted)
            self._tell(pod, known)
            if known.admitted:
                self._deps.allotments.set(allotted)
            elif is_static(pod) and for_want_of_room(known):
                self._waiting[uid] = pod
        return known

    def allotted(self, pod: Pod) -> Pod:
        """The pod as it is to be run: with what it was allotted, whatever its spec says now."""
        return with_allocation(pod, self._deps.allotments.get(ref_of(pod).uid))

    def updated(self, pod: Pod) -> Pod:
        """A pod that was let in has come or changed. Gives it as it is to be run; `grant` sees to what it wishes."""
        uid = ref_of(pod).uid
        verdict = self._verdicts.get(uid)
        if verdict is not None and not verdict.admitted:
            return pod
        try:
            allotted = self.allotted(pod)
        except Invalid as error:
            _log.warning("pod has impossible resources", extra={"pod": str(ref_of(pod)), "error": str(error)})
            return pod
        if allotted is pod or _is_ending(pod):
            self._resizes.drop(uid)
        else:
            self._resizes.wish(pod)
        return allotted

    def grant(self, trigger: Retry = Retry.PERIODIC) -> list[Resized]:
        """Give pods the size that they wish for, as far as there is room; the pods that this changes."""
        return self._resizes.grant(trigger) if self._resizes.waiting else []

    def pending_resize(self, uid: PodUID) -> PendingResize | None:
        """Why the pod has another size than it wishes for."""
        return self._resizes.pending(uid)

    def reconsider(self) -> Iterator[Pod]:
        """Static pods that were turned away for want of room, and that there is room for now; a pod has just gone.

        Nobody would make them anew, as a controller does with other pods. Each is let in before the next is judged.
        """
        for uid, pod in tuple(self._waiting.items()):
            verdict = self._judge(pod)
            if verdict.admitted and not verdict.preempts:
                del self._waiting[uid]
                self._verdicts[uid] = verdict
                self._deps.allotments.set(pod)
                _log.info("pod admitted after all", extra={"pod": str(ref_of(pod))})
                yield pod

    def forget(self, uid: PodUID) -> None:
        """The pod is no longer wanted; should it come again, it is judged again."""
        self._verdicts.pop(uid, None)
        self._needs.pop(uid, None)
        self._waiting.pop(uid, None)
        self._resizes.drop(uid)
        self._before -= {uid}

    def _judge(self, pod: Pod) -> Verdict:
        if is_mirror(pod) or ref_of(pod).uid in self._before or _is_ending(pod):
            return ADMITTED
        return self._judge_resize(pod)

    def _judge_resize(self, pod: Pod) -> Verdict:
        """Whether the pod fits as it stands, whatever it had before."""
        uid = ref_of(pod).uid
        try:
            wanted = needs_of(pod)
            others = [self._needs_of(other) for other in self._deps.active() if other.metadata.uid != uid]
        except Invalid as error:
            return Verdict("UnexpectedAdmissionError", str(error))
        return decide(pod, wanted, others, self._deps.node(), self._deps.sysctl_refusal(pod))

    def _infeasible(self, pod: Pod) -> str:
        allotted = self.allotted(pod)
        swapping = self._deps.swapping(pod) | self._deps.swapping(allotted)
        return swap_is_in_the_way(pod, allotted, swapping) or never_fits(needs_of(pod), self._deps.node())

    def _needs_of(self, pod: Pod) -> Needs:
        uid = ref_of(pod).uid
        if self._deps.allotments.progress(uid) is not None:
            self._forget_needs(uid)
            return held(self.allotted(pod), self._deps.allotments.applied(uid))
        needs = self._needs.get(uid)
        if needs is None:
            needs = self._needs[uid] = needs_of(self.allotted(pod))
        return needs

    def _forget_needs(self, uid: PodUID) -> None:
        self._needs.pop(uid, None)

    def _tell(self, pod: Pod, verdict: Verdict) -> None:
        ref = ref_of(pod)
        if not verdict.admitted:
            _log.info(
                "pod not admitted", extra={"pod": str(ref), "reason": verdict.reason, "message_": verdict.message}
            )
            self._deps.events.event(ref, WARNING, verdict.reason, verdict.message)
            self._deps.meter.admission_rejected(verdict.reason)
        if verdict.preempts:
            gone = {ref_of(other).uid: ref_of(other) for other in self._deps.active()}
            for uid in verdict.preempts:
                self._deps.events.event(gone[uid], WARNING, Reason.PREEMPT_CONTAINER, PREEMPTION_MESSAGE)
                self._deps.meter.preempted("")


def _is_ending(pod: Pod) -> bool:
    """Whether its worker would only take it down, so that there is nothing to let in."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in _TERMINAL


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
