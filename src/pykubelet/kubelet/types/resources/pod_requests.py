"""Requests and limits of a whole pod: the sums that admission, cgroups, QoS and eviction use.

Ordinary containers run concurrently, so they add up. Init containers run one at a time with the sidecars that
were started before them, so each such moment sets a minimum (KEP-753). Pod-level resources replace the sum
of the containers (KEP-2837); the overhead of the runtime class comes on top (KEP-688).
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.models.core_v1 import Container, Pod, ResourceRequirements
from pykubelet.models.quantity import Amount, parse, to_bytes
from pykubelet.models.scalars import Quantity

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
HUGEPAGES_PREFIX = "hugepages-"

NO_RESOURCES = ResourceRequirements()


class Amounts(Struct, frozen=True):
    """Amounts by resource name, exact; a missing name is zero."""

    by_name: Mapping[str, Amount] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def amount(self, name: str) -> Amount:
        return self.by_name.get(name, Amount(0))

    @property
    def cpu(self) -> MilliCPU:
        return MilliCPU(self.amount(CPU).milli)

    @property
    def memory(self) -> Bytes:
        return Bytes(self.amount(MEMORY).value)

    @property
    def hugepages(self) -> dict[Bytes, Bytes]:
        """Bytes by page size."""
        return hugepages(self.by_name)


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Return the amounts of a resource list. Raises Invalid for a malformed quantity."""
    return Amounts({name: parse(quantity) for name, quantity in quantities.items()})


def requirements(container: Container) -> ResourceRequirements:
    """Return the container's resources; empty ones if it declares none."""
    return container.resources or NO_RESOURCES


def hugepages(by_name: Mapping[str, Amount]) -> dict[Bytes, Bytes]:
    """Return the huge pages in a resource list: bytes by page size (`hugepages-2Mi` has pages of 2 MiB)."""
    sizes: dict[Bytes, Bytes] = {}
    for name, amount in by_name.items():
        if name.startswith(HUGEPAGES_PREFIX):
            size = to_bytes(name.removeprefix(HUGEPAGES_PREFIX))
            sizes[size] = Bytes(sizes.get(size, 0) + amount.value)
    return sizes


def pod_requests(pod: Pod, *, overhead: bool = True) -> Amounts:
    """Return the requests of the whole pod, as the scheduler and admission use them. Raises Invalid."""
    sums = container_sums(pod, limits=False)
    sums |= _pod_level(pod, limits=False)
    if overhead:
        _add(sums, _nano(pod.spec.overhead))
    return _amounts(sums)


def pod_limits(pod: Pod, *, overhead: bool = True) -> Amounts:
    """Return the limits of the whole pod. A container without a limit counts as zero, so see `limit_declared`."""
    sums = container_sums(pod, limits=True)
    sums |= _pod_level(pod, limits=True)
    if overhead:
        for name, extra in _nano(pod.spec.overhead).items():
            if sums.get(name, 0):
                sums[name] += extra
    return _amounts(sums)


def limit_declared(pod: Pod, resource: str) -> bool:
    """Whether the pod as a whole has a limit: one at pod level, or one in each container."""
    if _pod_level(pod, limits=True).get(resource, 0):
        return True
    own = (_nano(requirements(c).limits).get(resource, 0) for c in pod.spec.containers)
    return all(own) and all(step.get(resource, 0) for step in _init_steps(pod, limits=True))


def container_sums(pod: Pod, *, limits: bool) -> dict[str, int]:
    """Return the sums of the containers in nano units by resource, without pod level and overhead."""
    sums: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(sums, _nano(_list(requirements(container), limits)))
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            _add(sums, _nano(_list(requirements(container), limits)))
    for step in _init_steps(pod, limits):
        for name, nano in step.items():
            sums[name] = max(sums.get(name, nano), nano)
    return sums


def _init_steps(pod: Pod, limits: bool) -> Iterator[dict[str, int]]:
    """Yield, for each init container, the sum of its resources and those of the sidecars started before it."""
    sidecars: dict[str, int] = {}
    for container in pod.spec.init_containers:
        own = _nano(_list(requirements(container), limits))
        if is_sidecar(container):
            _add(sidecars, own)
            yield dict(sidecars)
        else:
            _add(own, sidecars)
            yield own


def _pod_level(pod: Pod, *, limits: bool) -> dict[str, int]:
    resources = pod.spec.resources or NO_RESOURCES
    return {
        name: nano
        for name, nano in _nano(_list(resources, limits)).items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }


def _list(resources: ResourceRequirements, limits: bool) -> Mapping[str, Quantity]:
    return resources.limits if limits else resources.requests


def _nano(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: parse(quantity).nano for name, quantity in quantities.items()}


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        sums[name] = sums.get(name, 0) + nano


def _amounts(sums: Mapping[str, int]) -> Amounts:
    return Amounts({name: Amount(nano) for name, nano in sums.items()})


_NATIVE = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """Whether a resource belongs to a device plugin or a cluster, such as ``example.com/gpu``."""
    return "/" in name and _NATIVE not in name and not name.startswith("requests.")
