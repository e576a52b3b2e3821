"""Who makes room for a critical pod (pure).

Pods of the lower classes go first, and as few as can be: guaranteed ones only for what best-effort and burstable ones
together do not give back, burstable ones only for what is then missing beside the best-effort ones. Within a class
that pod goes next which gives back most of what is missing; of two alike the one that asks for less.
"""

from collections.abc import Iterable, Mapping, Sequence

from pykubelet.kubelet.desired.admission.decide_fit import Shortage, amount_of
from pykubelet.kubelet.desired.admission.types import Needs
from pykubelet.kubelet.types.podresources import CPU, MEMORY
from pykubelet.kubelet.types.qos import QosClass


def may_preempt(preemptor: Needs, other: Needs) -> bool:
    """Whether one pod may push the other out: critical ones those that are not, else by priority."""
    if preemptor.critical and not other.critical:
        return True
    if preemptor.priority is None or other.priority is None:
        return False
    return preemptor.priority > other.priority


def victims(preemptor: Needs, others: Iterable[Needs], short: Iterable[Shortage]) -> tuple[Needs, ...] | str:
    """The pods to push out; or why that does not help, as text for the pod's message."""
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
    """Pods that give back what is missing, which all of them together do."""
    left, picked = list(pods), []
    while missing and left:
        amounts = missing
        next_one = min(left, key=lambda pod: (_distance(pod, amounts), amount_of(pod, MEMORY), amount_of(pod, CPU)))
        left.remove(next_one)
        picked.append(next_one)
        missing = _less(missing, (next_one,))
    return tuple(picked)


def _distance(pod: Needs, missing: Mapping[str, int]) -> float:
    """How far from enough the pod's requests are: 0 for enough of everything, 1 for each resource of which it has
    nothing."""
    lacking = ((amount, amount - amount_of(pod, name)) for name, amount in missing.items())
    return sum((rest / amount) ** 2 for amount, rest in lacking if rest > 0)


def _less(missing: Mapping[str, int], pods: Iterable[Needs]) -> dict[str, int]:
    """What is still missing without these pods."""
    gone = tuple(pods)
    left = {name: amount - sum(amount_of(pod, name) for pod in gone) for name, amount in missing.items()}
    return {name: amount for name, amount in left.items() if amount > 0}
