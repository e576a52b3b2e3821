"""Whether a pod fits on the node with the others: counts, resources, ports (pure), computed as by the scheduler."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from pykubelet.kubelet.desired.admission.admission_types import HostPort, Needs, NodeProperties
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, Amounts, is_extended, pod_requests
from pykubelet.kubelet.types.resources.qos import QosClass, is_critical, pod_qos
from pykubelet.models.core_v1 import Pod

PODS = "pods"
STORAGE = "ephemeral-storage"
EVERYWHERE = ("", "0.0.0.0")
"""Addresses of a host port that conflict with any other."""


class Shortage(Struct, frozen=True):
    """A resource of which too little is free; CPU in milli-CPU, others in their units."""

    name: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return f"OutOf{self.name}"

    @property
    def missing(self) -> int:
        """The amount to be freed before the pod fits."""
        return self.requested - (self.capacity - self.used)

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.name}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def needs_of(pod: Pod) -> Needs:
    """Return the pod's needs. Raises Invalid for a malformed quantity."""
    return Needs(
        uid=ref_of(pod).uid,
        requests=pod_requests(pod),
        ports=tuple(port for _, port in host_ports(pod)),
        qos=pod_qos(pod),
        critical=is_critical(pod),
        priority=pod.spec.priority,
    )


def unknown_needs(pod: Pod) -> Needs:
    """Return needs for a pod whose requests cannot be computed: the pod itself and its host ports.

    It counts as critical, so that none preempts it for resources that it may not have.
    """
    return Needs(
        uid=ref_of(pod).uid,
        requests=Amounts(),
        ports=tuple(port for _, port in host_ports(pod)),
        qos=QosClass.GUARANTEED,
        critical=True,
        priority=None,
    )


def shortages(wanted: Needs, others: Sequence[Needs], node: NodeProperties) -> tuple[Shortage, ...]:
    """Return the resources of which the node has too little: pods, CPU, memory, then the others.

    Extended resources that the node does not have are ignored: they may belong to the cluster.
    """
    return _shortages(wanted, len(others), lambda name: sum(amount_of(other, name) for other in others), node)


class Total:
    """Total requests of pods; a pod is added in a time that does not depend on how many there are."""

    def __init__(self, pods: Iterable[Needs] = ()) -> None:
        self._pods = 0
        self._amounts: Counter[str] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: Needs) -> None:
        """Count another pod."""
        self._pods += 1
        for name in {CPU, MEMORY, STORAGE, *pod.requests.by_name}:
            self._amounts[name] += amount_of(pod, name)

    def shortages(self, wanted: Needs, node: NodeProperties) -> tuple[Shortage, ...]:
        """Return what :func:`shortages` returns for a pod beside these."""
        return _shortages(wanted, self._pods, self._amounts.__getitem__, node)


def _shortages(wanted: Needs, pods: int, used_of: Callable[[str], int], node: NodeProperties) -> tuple[Shortage, ...]:
    found = []
    if pods + 1 > node.max_pods:
        found.append(Shortage(PODS, 1, pods, node.max_pods))
    names = (CPU, MEMORY, STORAGE, *sorted(set(wanted.requests.by_name) - {CPU, MEMORY, STORAGE}))
    for name in names:
        if is_extended(name) and name not in node.allocatable:
            continue
        requested = amount_of(wanted, name)
        if requested <= 0:
            continue
        used = used_of(name)
        capacity = node.allocatable.cpu if name == CPU else node.allocatable.amount(name).value
        if requested > capacity - used:
            found.append(Shortage(name, requested, used, capacity))
    return tuple(found)


def amount_of(needs: Needs, name: str) -> int:
    """Return a pod's request in the unit of `Shortage`; 1 for the resource ``pods``."""
    if name == PODS:
        return 1
    return needs.requests.cpu if name == CPU else needs.requests.amount(name).value


def ports_taken(wanted: Needs, others: Iterable[Needs]) -> bool:
    """Whether another pod uses one of the pod's host ports."""
    return any(ports_conflict(mine, theirs) for other in others for theirs in other.ports for mine in wanted.ports)


def host_ports(pod: Pod) -> Iterable[tuple[str, HostPort]]:
    """Yield the host ports of the pod's concurrent containers, each with the path of its element in ``ports``."""
    lists = [(f"spec.containers[{index}]", c) for index, c in enumerate(pod.spec.containers)]
    lists += [(f"spec.initContainers[{i}]", c) for i, c in enumerate(pod.spec.init_containers) if is_sidecar(c)]
    for path, container in lists:
        for index, port in enumerate(container.ports):
            if port.host_port:
                yield f"{path}.ports[{index}]", HostPort(port.host_ip, port.protocol or "TCP", port.host_port)


def ports_conflict(a: HostPort, b: HostPort) -> bool:
    """Whether two pods cannot have these host ports at the same time."""
    if (a.port, a.protocol) != (b.port, b.protocol):
        return False
    return a.ip == b.ip or a.ip in EVERYWHERE or b.ip in EVERYWHERE
