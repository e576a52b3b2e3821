"""`Admission`: applies the rules to each new pod, records the verdicts, and reports rejected pods."""

import logging
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.admission.admission_interfaces import Meter
from pykubelet.kubelet.desired.admission.admission_types import Needs, NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import needs_of, unknown_needs
from pykubelet.kubelet.desired.admission.plan.resize_order import needs_during_resize, never_fits, swap_prevents_resize
from pykubelet.kubelet.desired.admission.plan.rules import decide, is_for_shortage
from pykubelet.kubelet.desired.admission.resizes import ResizeDeps, ResizedPod, Resizes
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.admission import NODE_AFFINITY, PREEMPTION_MESSAGE, AdmissionVerdict
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.resources.resize import Allocations, PendingResizes, RetryTrigger, with_allocation
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_TERMINAL = ("Succeeded", "Failed")


class AdmissionDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `Admission`."""

    node: Callable[[], NodeProperties]
    sysctl_refusal: Callable[[Pod], str | None]
    active: Callable[[], Iterable[Pod]]
    """Returns the pods whose requests count: listed by a source, admitted, and not ended."""
    allocations: Allocations
    pending: PendingResizes
    """The resizes that wait; shared with the status."""
    telemetry: Telemetry[Meter]
    swapping: Callable[[Pod], frozenset[str]] = lambda pod: frozenset()
    """Returns the names of the pod's containers that may swap."""


class Admission:
    """The admission of pods. Called by the sync loop only, from one thread; never waits.

    A pod that an earlier run of the agent admitted is admitted again, even if the node has changed, since it may be
    running. It is recognized by its directory on disk; a rejected pod has none.
    """

    def __init__(self, deps: AdmissionDeps) -> None:
        self._deps = deps
        self._before: frozenset[PodUID] = frozenset()
        self._verdicts: dict[PodUID, AdmissionVerdict] = {}
        self._needs: dict[PodUID, Needs] = {}
        self._waiting: dict[PodUID, Pod] = {}
        self._others = Guard("admission.others", deps.telemetry.clock.monotonic)
        self._rejected = Guard("admission.rejected", deps.telemetry.clock.monotonic)
        self._resizes = Resizes(
            ResizeDeps(
                allocations=deps.allocations,
                judge=self._judge_resize,
                infeasible=self._infeasible,
                allocated=self._resized,
                pending=deps.pending,
                telemetry=deps.telemetry,
            )
        )

    def admitted_before(self, uids: Iterable[PodUID]) -> None:
        """Set the pods that an earlier run of the agent admitted; called before the first pod arrives."""
        self._before = frozenset(uids)

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        """Sort pods of one update in the order of admission: those admitted before, then the oldest."""
        return sorted(pods, key=lambda pod: (PodUID(pod.metadata.uid) not in self._before, _created(pod)))

    def admit(self, pod: Pod, *, final: bool = True) -> AdmissionVerdict:
        """Decide whether the pod may run with its allocated resources. The same pod gets the same verdict again.

        Unless ``final``, a verdict NodeAffinity is neither kept nor reported: the caller has the node's labels read
        again, since a watch may deliver a pod before the label that it was scheduled for, and asks again.
        """
        uid = ref_of(pod).uid
        known = self._verdicts.get(uid)
        if known is None:
            allocated = self.allocated(pod)
            known = self._judge(allocated)
            if known.reason == NODE_AFFINITY and not final:
                return known
            self._verdicts[uid] = known
            self._report(pod, known)
            if known.admitted:
                self._deps.allocations.set(allocated)
            elif is_static(pod) and is_for_shortage(known):
                self._waiting[uid] = pod
        return known

    def allocated(self, pod: Pod) -> Pod:
        """Return the pod with its allocated resources instead of those of its spec."""
        return with_allocation(pod, self._deps.allocations.get(ref_of(pod).uid))

    def updated(self, pod: Pod) -> Pod:
        """Return a new or changed admitted pod with its allocated resources; `grant` handles a requested resize."""
        uid = ref_of(pod).uid
        verdict = self._verdicts.get(uid)
        if verdict is not None and not verdict.admitted:
            return pod
        try:
            allocated = self.allocated(pod)
        except Invalid as error:
            _log.warning("admission: pod has invalid resources", extra={"pod": str(ref_of(pod)), "error": str(error)})
            return pod
        if allocated is pod or _is_ending(pod):
            self._resizes.drop(uid)
        else:
            self._resizes.request(pod)
        return allocated

    def grant(self, trigger: RetryTrigger = RetryTrigger.PERIODIC) -> list[ResizedPod]:
        """Allocate requested resizes that fit; return the pods that this changes."""
        return self._resizes.grant(trigger) if self._resizes.waiting else []

    def reconsider(self) -> Iterator[Pod]:
        """Yield static pods that were rejected for insufficient resources and fit now that a pod has been removed.

        No controller re-creates static pods, as happens with other pods. Each is admitted before the next is decided;
        one that raises waits on.
        """
        for uid, pod in tuple(self._waiting.items()):
            fits = False
            with self._rejected.item(uid):
                fits = self._reconsider(uid, pod)
            if fits:
                yield pod

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that its source no longer lists; if it is listed again, it is decided again."""
        self._verdicts.pop(uid, None)
        self._needs.pop(uid, None)
        self._waiting.pop(uid, None)
        self._resizes.drop(uid)
        self._before -= {uid}

    def _reconsider(self, uid: PodUID, pod: Pod) -> bool:
        """Admit a rejected pod if it fits now; return whether it does."""
        verdict = self._judge(pod)
        if not verdict.admitted or verdict.preempts:
            return False
        self._deps.allocations.set(pod)
        self._verdicts[uid] = verdict
        del self._waiting[uid]
        _log.info("admission: rejected pod admitted", extra={"pod": str(ref_of(pod))})
        return True

    def _judge(self, pod: Pod) -> AdmissionVerdict:
        if is_mirror(pod):
            return AdmissionVerdict(rule="it is the mirror of a static pod")
        if _is_ending(pod):
            return AdmissionVerdict(rule="it is ending")
        if ref_of(pod).uid in self._before:
            return AdmissionVerdict(rule="it was admitted before the agent was restarted")
        return self._judge_resize(pod)

    def _judge_resize(self, pod: Pod) -> AdmissionVerdict:
        """Decide whether the pod fits with the resources of its spec, regardless of its allocation."""
        uid = ref_of(pod).uid
        try:
            wanted = needs_of(pod)
        except Invalid as error:
            return AdmissionVerdict("UnexpectedAdmissionError", str(error), rule="valid requests")
        return decide(pod, wanted, self._needs_of_others(uid), self._deps.node(), self._deps.sysctl_refusal(pod))

    def _needs_of_others(self, uid: PodUID) -> list[Needs]:
        """Return the needs of the active pods but this one. One whose needs cannot be computed rejects no other pod."""
        found = []
        for other in self._deps.active():
            if other.metadata.uid != uid:
                with self._others.item(other.metadata.uid) as attempt:
                    found.append(self._needs_of(other))
                if attempt.error is not None:
                    found.append(unknown_needs(other))
        return found

    def _infeasible(self, pod: Pod) -> str:
        allocated = self.allocated(pod)
        swapping = self._deps.swapping(pod) | self._deps.swapping(allocated)
        return swap_prevents_resize(pod, allocated, swapping) or never_fits(needs_of(pod), self._deps.node())

    def _needs_of(self, pod: Pod) -> Needs:
        uid = ref_of(pod).uid
        if self._deps.allocations.progress(uid) is not None:
            self._forget_needs(uid)
            return needs_during_resize(self.allocated(pod), self._deps.allocations.applied(uid))
        needs = self._needs.get(uid)
        if needs is None:
            needs = self._needs[uid] = needs_of(self.allocated(pod))
        return needs

    def _resized(self, uid: PodUID, verdict: AdmissionVerdict) -> None:
        self._forget_needs(uid)
        self._report_preempted(verdict)

    def _forget_needs(self, uid: PodUID) -> None:
        self._needs.pop(uid, None)

    def _report(self, pod: Pod, verdict: AdmissionVerdict) -> None:
        ref = ref_of(pod)
        if not verdict.admitted:
            _log.info(
                "admission: pod rejected",
                extra={"pod": str(ref), "reason": verdict.reason, "message_": verdict.message},
            )
            self._deps.telemetry.events.event(ref, WARNING, verdict.reason, verdict.message)
            self._deps.telemetry.metrics.admission_rejected(verdict.reason)
        self._report_preempted(verdict)

    def _report_preempted(self, verdict: AdmissionVerdict) -> None:
        if not verdict.preempts:
            return
        gone = {ref_of(other).uid: ref_of(other) for other in self._deps.active()}
        for uid in verdict.preempts:
            self._deps.telemetry.events.event(gone[uid], WARNING, Reason.PREEMPT_CONTAINER, PREEMPTION_MESSAGE)
            self._deps.telemetry.metrics.preempted(verdict.preempted_for)


def _is_ending(pod: Pod) -> bool:
    """Whether the pod's worker would only stop it, so that its needs do not matter."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in _TERMINAL


def _created(pod: Pod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0
