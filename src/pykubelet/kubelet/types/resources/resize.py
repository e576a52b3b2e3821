"""In-place resize of pods (KEP-1287, pod level: KEP-5419): requested, allocated and applied resources.

A pod's spec has the requested resources. Admission allocates them, at once or later; workers only see pods with their
allocated resources. The pod runtime applies the allocation to running containers, and records what is not applied yet.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.units import Bytes, MilliCPU, Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, NO_RESOURCES, amounts, requirements
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.models import codec
from pykubelet.models.core_v1 import Container, Pod, ResourceRequirements
from pykubelet.models.quantity import from_bytes, from_milli, parse
from pykubelet.models.scalars import Quantity


class RetryTrigger(StrEnum):
    """Trigger of a retry of deferred resizes; values are those of the Go kubelet."""

    POD_UPDATED = "pod_updated"
    PODS_ADDED = "pods_added"
    PODS_REMOVED = "pods_removed"
    PERIODIC = "periodic_retry"


class ResizeReason(StrEnum):
    """Reasons of the conditions PodResizePending and PodResizeInProgress."""

    DEFERRED = "Deferred"
    """It would fit on the node, but not with the present pods: it is retried."""
    INFEASIBLE = "Infeasible"
    """It can never be done on this node."""
    ERROR = "Error"
    """It was allocated, and applying it failed; it is retried."""


class Allocation(Struct, frozen=True):
    """Allocated resources of a pod: of its containers and, if it has any, of the pod level."""

    containers: Mapping[str, ResourceRequirements]
    pod: ResourceRequirements | None = None
    generation: int | None = None
    """Generation of the spec that was allocated."""


class PendingResize(Struct, frozen=True):
    """A requested resize that could not be allocated yet."""

    reason: ResizeReason
    message: str
    generation: int | None
    since: Seconds
    """Unix time."""


class ResizeProgress(Struct, frozen=True):
    """A resize that is allocated and not completely applied."""

    generation: int | None
    error: str = ""
    """The reason why the last attempt failed; empty: there was none, or it did not fail."""


class ResizeState(Struct, frozen=True):
    """The resize of a pod, as its status reports it."""

    pending: PendingResize | None = None
    progress: ResizeProgress | None = None


NOT_RESIZING = ResizeState()


class PendingResizes:
    """The requested resizes that could not be allocated yet. Admission writes them, the status shows them."""

    def __init__(self) -> None:
        self._by_uid: dict[PodUID, PendingResize] = {}

    def get(self, uid: PodUID) -> PendingResize | None:
        """Return why the pod's allocation differs from its spec, or None."""
        return self._by_uid.get(uid)

    def put(self, uid: PodUID, pending: PendingResize) -> None:
        """Record why the pod's resize waits."""
        self._by_uid[uid] = pending

    def drop(self, uid: PodUID) -> None:
        """Forget the pod's resize. Idempotent."""
        self._by_uid.pop(uid, None)


class Allocations(Protocol):
    """The durable store of allocated resources (``actuate/podruntime/allocation_store.py``)."""

    def get(self, uid: PodUID) -> Allocation | None:
        """Return the pod's allocation; None: no record, which means the resources of its spec."""

    def set(self, pod: Pod) -> None:
        """Allocate the resources of this pod's spec."""

    def progress(self, uid: PodUID) -> ResizeProgress | None:
        """Return the resize that is allocated and not completely applied, or None."""

    def applied(self, uid: PodUID) -> Mapping[str, Size]:
        """Return, by container name, the sizes of containers that run with another size than allocated."""


def allocation_of(pod: Pod) -> Allocation:
    """Return the resources of the pod's spec as an allocation."""
    containers = {c.name: requirements(c) for c in (*pod.spec.init_containers, *pod.spec.containers)}
    return Allocation(containers, pod.spec.resources, pod.metadata.generation)


def with_allocation(pod: Pod, allocation: Allocation | None) -> Pod:
    """Return the pod with its allocated resources; the same object if they are those of its spec."""
    if allocation is None:
        return pod
    init = tuple(_with_allocated(c, allocation) for c in pod.spec.init_containers)
    ordinary = tuple(_with_allocated(c, allocation) for c in pod.spec.containers)
    whole = pod.spec.resources if same_resources(pod.spec.resources, allocation.pod) else allocation.pod
    unchanged = all(a is b for a, b in zip(init, pod.spec.init_containers, strict=True)) and all(
        a is b for a, b in zip(ordinary, pod.spec.containers, strict=True)
    )
    if unchanged and whole is pod.spec.resources:
        return pod
    return replace(pod, spec=replace(pod.spec, init_containers=init, containers=ordinary, resources=whole))


def same_resources(a: ResourceRequirements | None, b: ResourceRequirements | None) -> bool:
    """Whether two requirements have the same amounts, however they are written. Raises Invalid."""
    if a is b:
        return True
    a, b = a or NO_RESOURCES, b or NO_RESOURCES
    return _nano(a.requests) == _nano(b.requests) and _nano(a.limits) == _nano(b.limits)


def container_size(pod: Pod, container: Container) -> Size:
    """Return the size of a container of this pod. Raises Invalid for a malformed quantity."""
    own, whole = requirements(container), pod.spec.resources or NO_RESOURCES
    requests, limits, shared = amounts(own.requests), amounts(own.limits), amounts(whole.limits)
    return Size(requests.cpu, limits.cpu or shared.cpu, requests.memory, limits.memory or shared.memory)


def sized(container: Container, size: Size) -> Container:
    """Return the container with this CPU and memory, and otherwise unchanged."""
    own = requirements(container)
    requests = _put(own.requests, size.cpu_request, size.memory_request)
    limits = _put(own.limits, size.cpu_limit, size.memory_limit)
    return replace(container, resources=replace(own, requests=requests, limits=limits))


def resize_summary(pod: Pod, generation: int | None, error: str = "") -> str:
    """Return JSON for events: the containers with their resources, the generation of the spec, the error."""
    summary: dict[str, object] = {}
    if pod.spec.init_containers:
        summary["initContainers"] = [_summary(c) for c in pod.spec.init_containers]
    summary["containers"] = [_summary(c) for c in pod.spec.containers]
    summary["generation"] = generation or 0
    if error:
        summary["error"] = error
    return codec.encode(summary).decode()


def _summary(container: Container) -> dict[str, object]:
    return {"name": container.name, "resources": requirements(container)}


def _put(before: Mapping[str, Quantity], cpu: MilliCPU, memory: Bytes) -> dict[str, Quantity]:
    """Set CPU and memory; zero only if the name was set before, since no CPU request means that of the limit."""
    result = dict(before)
    for name, amount, text in ((CPU, cpu, from_milli(cpu)), (MEMORY, memory, from_bytes(memory))):
        if amount or name in before:
            result[name] = text
    return result


def _with_allocated(container: Container, allocation: Allocation) -> Container:
    given = allocation.containers.get(container.name)
    if given is None or same_resources(container.resources, given):
        return container
    return replace(container, resources=given)


def _nano(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: parse(quantity).nano for name, quantity in quantities.items()}
