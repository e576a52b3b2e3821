"""The QoS class of a pod, computed from its requests and limits.

The class determines the parent of the pod's cgroup, its OOM score, and its place in the order of eviction. Rules: the
Kubernetes documentation, "Pod Quality of Service Classes"; KEP-2837 for pod-level resources.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, requirements
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Pod, ResourceRequirements
from pykubelet.models.quantity import parse
from pykubelet.models.scalars import Quantity

_COUNTED = (CPU, MEMORY)
_SYSTEM_CRITICAL_PRIORITY = 2_000_000_000


class QosClass(StrEnum):
    """The QoS classes; values as in the API."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def pod_qos(pod: Pod) -> QosClass:
    """Return the QoS class recorded in the pod's status, else compute it. It never changes in a pod's life."""
    recorded = pod.status.qos_class
    return QosClass(recorded) if recorded in tuple(QosClass) else compute_qos(pod)


def compute_qos(pod: Pod) -> QosClass:
    """Compute the QoS class from the spec.

    Guaranteed: every container has CPU and memory limits and requests equal to them. BestEffort: no container has
    either. Init containers count; ephemeral ones cannot have resources. Raises Invalid for a malformed quantity.
    """
    if pod.spec.resources is not None:
        scopes: tuple[ResourceRequirements, ...] = (pod.spec.resources,)
    else:
        scopes = tuple(requirements(c) for c in (*pod.spec.containers, *pod.spec.init_containers))
    # The class is computed for each container that starts: thousands without requests and limits must cost little.
    if not any(scope.requests or scope.limits for scope in scopes):
        return QosClass.BEST_EFFORT
    requests = _totals(scope.requests for scope in scopes)
    limits = _totals(scope.limits for scope in scopes)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    all_limited = all(len(_positive(scope.limits)) == len(_COUNTED) for scope in scopes)
    return QosClass.GUARANTEED if all_limited and requests == limits else QosClass.BURSTABLE


def is_critical(pod: Pod) -> bool:
    """Whether the pod is static, a mirror, or has a system priority; admission preempts others for it."""
    if is_static(pod) or is_mirror(pod):
        return True
    return pod.spec.priority is not None and pod.spec.priority >= _SYSTEM_CRITICAL_PRIORITY


def is_node_critical(pod: Pod) -> bool:
    """Whether the pod is critical with priority class `system-node-critical`: the last to be OOM-killed."""
    return is_critical(pod) and pod.spec.priority_class_name == "system-node-critical"


def _positive(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    nano = ((name, parse(quantities[name]).nano) for name in _COUNTED if name in quantities)
    return {name: amount for name, amount in nano if amount > 0}


def _totals(lists: Iterable[Mapping[str, Quantity]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for quantities in lists:
        for name, nano in _positive(quantities).items():
            totals[name] = totals.get(name, 0) + nano
    return totals
