"""Computes `oom_score_adj`: which containers the kernel kills first when the node is out of memory. Pure.

BestEffort pods are killed first and Guaranteed pods last. Between them the score falls with the requested share of the
node's memory, so that containers within their request are killed later (KEP-2837 for pod-level resources, KEP-753 for
sidecars).
"""

from pykubelet.base.units import Bytes
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.resources.pod_requests import (
    MEMORY,
    NO_RESOURCES,
    amounts,
    container_sums,
    requirements,
)
from pykubelet.kubelet.types.resources.qos import QosClass, is_node_critical, pod_qos
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod
from pykubelet.models.quantity import NANO

GUARANTEED_OOM_SCORE_ADJ = -997
BEST_EFFORT_OOM_SCORE_ADJ = 1000


def oom_score_adj(pod: Pod, container: Container | EphemeralContainer, memory_capacity: Bytes) -> int:
    """The adjustment (-1000…1000) for one container; `memory_capacity` is the node's memory, above zero."""
    if is_node_critical(pod):
        return GUARANTEED_OOM_SCORE_ADJ
    match pod_qos(pod):
        case QosClass.GUARANTEED:
            return GUARANTEED_OOM_SCORE_ADJ
        case QosClass.BEST_EFFORT:
            return BEST_EFFORT_OOM_SCORE_ADJ
        case QosClass.BURSTABLE:
            pass
    share = _unclaimed_share(pod)
    score = _score(_memory_request(container) + share, memory_capacity)
    if is_sidecar(container) and any(c.name == container.name for c in pod.spec.init_containers):
        # A sidecar must not be killed before the containers it serves.
        least = min((_memory_request(c) for c in pod.spec.containers), default=0)
        score = min(score, _score(least + share, memory_capacity))
    floor = BEST_EFFORT_OOM_SCORE_ADJ + GUARANTEED_OOM_SCORE_ADJ
    return max(floor, min(score, BEST_EFFORT_OOM_SCORE_ADJ - 1))


def _score(request: int, capacity: Bytes) -> int:
    return 1000 - 1000 * request // capacity


def _memory_request(container: Container | EphemeralContainer) -> int:
    # Ephemeral containers cannot have resources.
    resources = requirements(container) if isinstance(container, Container) else NO_RESOURCES
    return amounts(resources.requests).memory


def _unclaimed_share(pod: Pod) -> int:
    """The pod-level request beyond the containers' requests, divided evenly among them (KEP-2837)."""
    if pod.spec.resources is None:
        return 0
    whole = amounts(pod.spec.resources.requests).memory
    claimed = -(-container_sums(pod, limits=False).get(MEMORY, 0) // NANO)
    containers = len(pod.spec.containers) + len(pod.spec.init_containers)
    return max(0, whole - claimed) // max(1, containers)
