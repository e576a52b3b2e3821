"""The pods that a critical pod preempts (pure).

As few pods as possible are preempted, of the lowest QoS classes first: guaranteed ones only for what best-effort and
burstable ones together do not free, burstable ones only for what is then missing besides the best-effort ones. Within a
class the pod that frees most of what is missing is next; among equal ones, that with the smaller requests.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykubelet.kubelet.desired.admission.admission_types import Needs
from pykubelet.kubelet.desired.admission.plan.fit import Shortage, amount_of
from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY
from pykubelet.kubelet.types.resources.qos import QosClass


def may_preempt(preemptor: Needs, other: Needs) -> bool:
    """Whether one pod may preempt the other: a critical one any that is not critical, else by priority."""
    if preemptor.critical and not other.critical:
        return True
    if preemptor.priority is None or other.priority is None:
        return False
    return preemptor.priority > other.priority


def victims(preemptor: Needs, others: Iterable[Needs], short: Iterable[Shortage]) -> tuple[Needs, ...] | str:
    """Return the pods to preempt; or, as text for the pod's message, why preemption does not help."""
    missing = {each.name: each.missing for each in short}
    classes: dict[QosClass, list[Needs]] = {qos: [] for qos in QosClass}
    for other in others:
        if may_preempt(preemptor, other):
            classes[other.qos].append(other)
    best_effort, burstable, guaranteed = (
        classes[QosClass.BEST_EFFORT],
        classes[QosClass.BURSTABLE],
        classes[QosClass.GUARANTEED],
    )
    impossible = _less(missing, (*best_effort, *burstable, *guaranteed))
    if impossible:
        listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in impossible.items())
        return (
            "preemption: error finding a set of pods to preempt: "
            f"no set of running pods found to reclaim resources: [{listed}]"
        )
    third = _pick(guaranteed, _less(missing, (*best_effort, *burstable)))
    second = _pick(burstable, _less(missing, (*best_effort, *third)))
    first = _pick(best_effort, _less(missing, (*second, *third)))
    return (*first, *second, *third)


def _pick(pods: Sequence[Needs], missing: Mapping[str, int]) -> tuple[Needs, ...]:
    """Select pods that free what is missing; all of them together are known to do so."""
    left, picked = list(pods), []
    while missing and left:
        amounts = missing
        next_one = min(left, key=lambda pod: (_distance(pod, amounts), amount_of(pod, MEMORY), amount_of(pod, CPU)))
        left.remove(next_one)
        picked.append(next_one)
        missing = _less(missing, (next_one,))
    return tuple(picked)


def _distance(pod: Needs, missing: Mapping[str, int]) -> float:
    """Return the distance of the pod's requests from what is missing: 0 if they cover all of it; each resource that
    the pod does not request counts 1."""
    lacking = ((amount, amount - amount_of(pod, name)) for name, amount in missing.items())
    return sum((rest / amount) ** 2 for amount, rest in lacking if rest > 0)


def _less(missing: Mapping[str, int], pods: Iterable[Needs]) -> dict[str, int]:
    """Return what is still missing after these pods have ended."""
    gone = tuple(pods)
    left = {name: amount - sum(amount_of(pod, name) for pod in gone) for name, amount in missing.items()}
    return {name: amount for name, amount in left.items() if amount > 0}
