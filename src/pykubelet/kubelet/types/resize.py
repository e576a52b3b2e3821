"""In-place resize of pods (KEP-1287, pod level: KEP-5419): what is wished, what is allotted, what is applied.

A pod's spec says what is wished. Admission allots it, at once or later; workers only ever see pods with the resources
that they were allotted. The pod runtime applies the allotment to what runs, and remembers what it has not applied yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from msgspec.structs import replace

from pykubelet.base.units import Bytes, MilliCPU, Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podresources import CPU, MEMORY, NO_RESOURCES, amounts, requirements
from pykubelet.kubelet.types.size import Size
from pykubelet.models import codec
from pykubelet.models.core_v1 import Container, Pod, ResourceRequirements
from pykubelet.models.quantity import from_bytes, from_milli, parse
from pykubelet.models.scalars import Quantity


class Retry(StrEnum):
    """What has the node look again at sizes that pods wait for; the reference's words."""

    POD_UPDATED = "pod_updated"
    PODS_ADDED = "pods_added"
    PODS_REMOVED = "pods_removed"
    PERIODIC = "periodic_retry"


class ResizeReason(StrEnum):
    """Reasons of the conditions PodResizePending and PodResizeInProgress."""

    DEFERRED = "Deferred"
    """It would fit on the node, but not beside what is there now: it is tried again."""
    INFEASIBLE = "Infeasible"
    """It can never be done here."""
    ERROR = "Error"
    """It was allotted, and applying it failed; it is tried again."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a pod has been given: the resources of its containers and, if it has any, of the pod as a whole."""

    containers: Mapping[str, ResourceRequirements]
    pod: ResourceRequirements | None = None
    generation: int | None = None
    """Of the spec that was allotted."""


@dataclass(frozen=True, slots=True)
class PendingResize:
    """A wish that could not be granted yet."""

    reason: ResizeReason
    message: str
    generation: int | None
    since: Seconds
    """Unix time."""


@dataclass(frozen=True, slots=True)
class ResizeProgress:
    """A resize that is allotted and not wholly applied."""

    generation: int | None
    error: str = ""
    """Why the last attempt failed; empty if there was none, or it did not fail."""


@dataclass(frozen=True, slots=True)
class ResizeState:
    """What the status says about a pod's resize."""

    pending: PendingResize | None = None
    progress: ResizeProgress | None = None


NOT_RESIZING = ResizeState()


class Allocations(Protocol):
    """The record of what pods were allotted; it outlives the agent (``actuate/podruntime/allocation_store.py``)."""

    def get(self, uid: PodUID) -> Allocation | None:
        """What the pod was allotted; None if nothing is on record, which means all that its spec says."""

    def set(self, pod: Pod) -> None:
        """Allot what this pod's spec says."""

    def progress(self, uid: PodUID) -> ResizeProgress | None:
        """Whether something allotted has not been applied yet."""

    def applied(self, uid: PodUID) -> Mapping[str, Size]:
        """By container name: the sizes of those that run with another size than allotted."""


def allocation_of(pod: Pod) -> Allocation:
    """All that the pod's spec asks for."""
    containers = {c.name: requirements(c) for c in (*pod.spec.init_containers, *pod.spec.containers)}
    return Allocation(containers, pod.spec.resources, pod.metadata.generation)


def with_allocation(pod: Pod, allotment: Allocation | None) -> Pod:
    """The pod with the resources that it was allotted; the very same object where that is what its spec says."""
    if allotment is None:
        return pod
    init = tuple(_allotted(c, allotment) for c in pod.spec.init_containers)
    ordinary = tuple(_allotted(c, allotment) for c in pod.spec.containers)
    whole = pod.spec.resources if same_resources(pod.spec.resources, allotment.pod) else allotment.pod
    unchanged = all(a is b for a, b in zip(init, pod.spec.init_containers, strict=True)) and all(
        a is b for a, b in zip(ordinary, pod.spec.containers, strict=True)
    )
    if unchanged and whole is pod.spec.resources:
        return pod
    return replace(pod, spec=replace(pod.spec, init_containers=init, containers=ordinary, resources=whole))


def same_resources(a: ResourceRequirements | None, b: ResourceRequirements | None) -> bool:
    """Whether two requirements come to the same, however they are written. Raises Invalid."""
    if a is b:
        return True
    a, b = a or NO_RESOURCES, b or NO_RESOURCES
    return _nano(a.requests) == _nano(b.requests) and _nano(a.limits) == _nano(b.limits)


def container_size(pod: Pod, container: Container) -> Size:
    """The size of a container of this pod. Raises Invalid for what is no quantity."""
    own, whole = requirements(container), pod.spec.resources or NO_RESOURCES
    requests, limits, shared = amounts(own.requests), amounts(own.limits), amounts(whole.limits)
    return Size(requests.cpu, limits.cpu or shared.cpu, requests.memory, limits.memory or shared.memory)


def sized(container: Container, size: Size) -> Container:
    """The container with this CPU and memory, everything else as it is."""
    own = requirements(container)
    requests = _put(own.requests, size.cpu_request, size.memory_request)
    limits = _put(own.limits, size.cpu_limit, size.memory_limit)
    return replace(container, resources=replace(own, requests=requests, limits=limits))


def resize_summary(pod: Pod, generation: int | None, error: str = "") -> str:
    """For events, as JSON: the containers with their resources, the generation of the spec, and what went wrong."""
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
    """An amount of zero is written only where there was one: no CPU request means as much as the limit."""
    result = dict(before)
    for name, amount, text in ((CPU, cpu, from_milli(cpu)), (MEMORY, memory, from_bytes(memory))):
        if amount or name in before:
            result[name] = text
    return result


def _allotted(container: Container, allotment: Allocation) -> Container:
    given = allotment.containers.get(container.name)
    if given is None or same_resources(container.resources, given):
        return container
    return replace(container, resources=given)


def _nano(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: parse(quantity).nano for name, quantity in quantities.items()}
