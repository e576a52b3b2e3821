"""Whether a pod fits beside those that are there: counts, resources, ports (pure). The scheduler's own arithmetic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykubelet.kubelet.desired.admission.types import HostPort, Needs, NodeFacts
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.podresources import CPU, MEMORY, pod_requests
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.qos import is_critical, pod_qos
from pykubelet.models.core_v1 import Pod

PODS = "pods"
STORAGE = "ephemeral-storage"
_EVERYWHERE = ("", "0.0.0.0")
_NATIVE = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which too little is left; CPU in thousandths, others in their units."""

    name: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return f"OutOf{self.name}"

    @property
    def missing(self) -> int:
        """How much has to be given back before the pod fits."""
        return self.requested - (self.capacity - self.used)

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.name}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def needs_of(pod: Pod) -> Needs:
    """What the pod takes. Raises Invalid for a request that is no quantity."""
    return Needs(
        uid=ref_of(pod).uid,
        requests=pod_requests(pod),
        ports=tuple(_host_ports(pod)),
        qos=pod_qos(pod),
        critical=is_critical(pod),
        priority=pod.spec.priority,
    )


def shortages(wanted: Needs, others: Sequence[Needs], node: NodeFacts) -> tuple[Shortage, ...]:
    """What the node has too little of, the number of pods first, then CPU, memory and the rest.

    Extended resources that the node does not have are not its concern: they may be the cluster's.
    """
    found = []
    if len(others) + 1 > node.max_pods:
        found.append(Shortage(PODS, 1, len(others), node.max_pods))
    names = (CPU, MEMORY, STORAGE, *sorted(set(wanted.requests.by_name) - {CPU, MEMORY, STORAGE}))
    for name in names:
        if is_extended(name) and name not in node.allocatable:
            continue
        requested = amount_of(wanted, name)
        if requested <= 0:
            continue
        used = sum(amount_of(other, name) for other in others)
        capacity = node.allocatable.cpu if name == CPU else node.allocatable.amount(name).value
        if requested > capacity - used:
            found.append(Shortage(name, requested, used, capacity))
    return tuple(found)


def amount_of(needs: Needs, name: str) -> int:
    """A pod's request in the unit of `Shortage`; the number of pods is one."""
    if name == PODS:
        return 1
    return needs.requests.cpu if name == CPU else needs.requests.amount(name).value


def ports_taken(wanted: Needs, others: Iterable[Needs]) -> bool:
    """Whether another pod has one of the node's ports that this one wants."""
    return any(_conflict(mine, theirs) for other in others for theirs in other.ports for mine in wanted.ports)


def is_extended(name: str) -> bool:
    """Whether a resource belongs to a device plugin or a cluster, as ``example.com/gpu``."""
    return "/" in name and _NATIVE not in name and not name.startswith("requests.")


def _host_ports(pod: Pod) -> Iterable[HostPort]:
    sidecars = (c for c in pod.spec.init_containers if is_sidecar(c))
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield HostPort(port.host_ip, port.protocol or "TCP", port.host_port)


def _conflict(a: HostPort, b: HostPort) -> bool:
    if (a.port, a.protocol) != (b.port, b.protocol):
        return False
    return a.ip == b.ip or a.ip in _EVERYWHERE or b.ip in _EVERYWHERE
