"""Whether a pod may run on a node with given labels and taints, and whether a selector matches the node (pure).

Rules: "Assigning Pods to Nodes" and "Taints and Tolerations" of the Kubernetes documentation.
"""

from collections.abc import Iterable, Mapping

from pykubelet.models.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration

NO_EXECUTE = "NoExecute"


def matches_node(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node matches the pod's node selector and required node affinity."""
    return not unmatched_selectors(pod, labels) and matches_affinity(pod, name, labels)


def unmatched_selectors(pod: Pod, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the pod's node selector whose values the node's labels do not have."""
    return tuple(key for key, value in pod.spec.node_selector.items() if labels.get(key) != value)


def matches_affinity(pod: Pod, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node matches the pod's required node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or matches_selector(required, name, labels)


def matches_selector(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node matches one of the selector's terms."""
    return any(_term(term, name, labels) for term in selector.node_selector_terms)


def untolerated(pod: Pod, taints: Iterable[Taint], effect: str = NO_EXECUTE) -> Taint | None:
    """Return the first taint of the effect that the pod does not tolerate."""
    found = (taint for taint in taints if taint.effect == effect)
    return next((taint for taint in found if not any(_tolerates(t, taint) for t in pod.spec.tolerations)), None)


def _term(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Whether all requirements of a term match. A term without requirements matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(_requirement(each, labels) for each in term.match_expressions) and all(
        each.operator in ("In", "NotIn") and each.key in fields and _requirement(each, fields)
        for each in term.match_fields
    )


def _requirement(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    """Whether a requirement matches. Unknown operators match nothing: better to reject a pod than to misplace it."""
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            numbers = [_integer(text) for text in (value or "", *requirement.values)]
            if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
                return False
            return numbers[0] > numbers[1] if requirement.operator == "Gt" else numbers[0] < numbers[1]
        case _:
            return False


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-").removeprefix("+")
    return int(text) if digits.isdecimal() and len(digits) < 20 else None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case _:
            return False
