"""Memory protection and throttling by cgroup v2 (feature gate MemoryQoS). Pure.

Requests become memory that the kernel does not reclaim (``memory.min``) or reclaims last (``memory.low``), and a
container is slowed down before it meets its limit (``memory.high``). Source: KEP-2570 as of Kubernetes 1.36.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.base.units import Bytes
from pykubelet.kubelet.types.resources.pod_requests import pod_requests
from pykubelet.kubelet.types.resources.qos import QosClass, pod_qos
from pykubelet.models.core_v1 import Pod


class MemoryQos(Struct, frozen=True, kw_only=True):
    """Configuration of memory QoS on a node with cgroup v2."""

    factor: float
    """``memoryThrottlingFactor``: how far between request and limit throttling begins, more than 0, at most 1."""
    allocatable: Bytes
    """Node allocatable memory: the limit of containers without one."""
    tiered: bool = False
    """``memoryReservationPolicy: TieredReservation``: requests are protected."""
    page_size: Bytes = Bytes(4096)


class Protection(Struct, frozen=True):
    """Protected memory of a cgroup; None: not set."""

    min: Bytes | None = None
    low: Bytes | None = None


def container_files(pod: Pod, request: Bytes, limit: Bytes, qos: MemoryQos) -> tuple[tuple[str, str], ...]:
    """Return the files of a container's cgroup and their content. A request or limit of 0 means none."""
    protected = _protection(pod_qos(pod), request, qos)
    files = {"memory.min": protected.min, "memory.low": protected.low, "memory.high": _high(pod, request, limit, qos)}
    return tuple((name, str(value)) for name, value in files.items() if value is not None)


def pod_protection(pod: Pod, qos: MemoryQos) -> Protection:
    """Return the protection of the pod's cgroup, for the sum of its requests, with overhead."""
    return _protection(pod_qos(pod), pod_requests(pod).memory, qos)


def level_protection(
    requests: Iterable[tuple[QosClass, Bytes]], qos: MemoryQos | None
) -> Mapping[QosClass, Protection]:
    """Return the protection of the cgroups of all pods (as Guaranteed) and of the Burstable class.

    The kernel protects a cgroup only as far as its parents are protected. Without reservations, what an earlier
    configuration has left is removed.
    """
    sums = dict.fromkeys(QosClass, 0)
    for qos_class, request in requests:
        sums[qos_class] += request if qos is not None and qos.tiered else 0
    burstable = Bytes(sums[QosClass.BURSTABLE])
    return {
        QosClass.GUARANTEED: Protection(min=Bytes(sums[QosClass.GUARANTEED] + burstable)),
        QosClass.BURSTABLE: Protection(low=burstable),
    }


def _protection(qos_class: QosClass, request: Bytes, qos: MemoryQos) -> Protection:
    if not qos.tiered or not request or qos_class is QosClass.BEST_EFFORT:
        return Protection()
    return Protection(min=request) if qos_class is QosClass.GUARANTEED else Protection(low=request)


def _high(pod: Pod, request: Bytes, limit: Bytes, qos: MemoryQos) -> Bytes | None:
    """Return where throttling begins; None where it could not help: below the request, or if that is the limit."""
    if request == limit != 0 or pod_qos(pod) is QosClass.GUARANTEED:
        return None
    most = limit or qos.allocatable
    high = int(request + (most - request) * qos.factor) // qos.page_size * qos.page_size
    return Bytes(high) if high > request else None
