"""The order in which pods are evicted, and the messages of their evictions (pure)."""

from collections.abc import Iterable, Mapping

from pykubelet.kubelet.observe.eviction.eviction_types import (
    RESOURCE_OF,
    ContainerUse,
    DiskUse,
    Part,
    PodUse,
    Resource,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.types.resources.pod_requests import MEMORY, pod_requests, requirements
from pykubelet.models.core_v1 import Pod, Volume
from pykubelet.models.quantity import NANO, Amount, Notation, parse

STORAGE = "ephemeral-storage"
Rank = tuple[bool, bool, int, bool, int]


def rank(pod: Pod, use: PodUse | None, resource: Resource, measured: frozenset[Part]) -> Rank:
    """Return the pod's sort key in the order of eviction; of disks, only the parts that are ``measured`` count.

    Pods whose usage exceeds their request come first, then those of low priority, then those with the largest excess.
    There are no requests for process ids, so priority comes first. A pod whose usage is unknown comes before others.
    Critical pods have a rank, too: the manager takes the first pod that is not critical. Raises Invalid for a malformed
    request.
    """
    priority, pids = pod.spec.priority or 0, resource is Resource.PIDS
    if use is None:
        return (False, False, priority, False, 0)
    used, asked = _used(pod, use, resource, measured), _asked(pod, resource)
    return (not pids, not pids and used <= asked, priority, True, asked - used)


def reported(
    pod: Pod, use: PodUse | None, threshold: Threshold, observed: SignalObservation | None
) -> tuple[str, Mapping[str, str]]:
    """Return the message of an eviction, and the annotations of its event (none if the usage is unknown)."""
    resource = RESOURCE_OF[threshold.signal]
    text = f"The node was low on resource: {resource}. "
    if observed is not None:
        binary = resource in (Resource.MEMORY, Resource.STORAGE)
        least, left = quantity(threshold.least.of(observed.capacity), binary), quantity(observed.available, binary)
        text += f"Threshold quantity: {least}, available: {left}. "
    if use is None:
        return text, {}
    annotations: dict[str, str] = {}
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    if resource is Resource.MEMORY and resource in whole:
        name, used = pod.metadata.name, quantity(use.memory, binary=True)
        text += _sentence("Pod", name, used, parse(whole[resource]), resource)
        annotations |= {"offending_pod": name, "offending_pod_usage": used}
    offending = list(_offending(pod, use, resource))
    text += "".join(_sentence("Container", *each, resource) for each in offending)
    return text, annotations | {
        "offending_containers": ",".join(name for name, _, _ in offending),
        "offending_containers_usage": ",".join(used for _, used, _ in offending),
        "starved_resource": resource,
    }


def _offending(pod: Pod, use: PodUse, resource: Resource) -> Iterable[tuple[str, str, Amount]]:
    """Yield name, usage and request of each container that exceeds its request."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        known = use.containers.get(container.name)
        amount = None if known is None else _of_container(known, resource)
        asked = parse(requirements(container).requests.get(resource, 0))
        if amount and amount > asked.value:
            yield container.name, quantity(amount, binary=True), asked


def _sentence(what: str, name: str, used: str, asked: Amount, resource: Resource) -> str:
    return f"{what} {name} was using {used}, request is {asked}, has larger consumption of {resource}. "


def _of_container(use: ContainerUse, resource: Resource) -> int | None:
    if resource is Resource.MEMORY:
        return use.memory
    if resource is Resource.STORAGE and use.rootfs is not None and use.logs is not None:
        return use.rootfs.bytes + use.logs.bytes
    return None


def _used(pod: Pod, use: PodUse, resource: Resource, measured: frozenset[Part]) -> int:
    match resource:
        case Resource.MEMORY:
            return use.memory
        case Resource.STORAGE:
            return _disk(pod, use, measured).bytes
        case Resource.INODES:
            return _disk(pod, use, measured).inodes
        case Resource.PIDS:
            return use.processes


def _disk(pod: Pod, use: PodUse, measured: frozenset[Part]) -> DiskUse:
    found: list[DiskUse | None] = []
    for container in use.containers.values():
        found += [container.rootfs] if Part.ROOTFS in measured else []
        found += [container.logs] if Part.LOGS in measured else []
    if Part.VOLUMES in measured:
        found += [use.volumes.get(volume.name) for volume in pod.spec.volumes if _is_local(volume)]
    return sum((each for each in found if each is not None), DiskUse())


def _is_local(volume: Volume) -> bool:
    """Whether the volume takes space of the node: a host path, an emptyDir on disk, a ConfigMap."""
    on_disk = volume.empty_dir is not None and not volume.empty_dir.medium
    return on_disk or volume.host_path is not None or volume.config_map is not None


def _asked(pod: Pod, resource: Resource) -> int:
    match resource:
        case Resource.MEMORY:
            return pod_requests(pod).amount(MEMORY).value
        case Resource.STORAGE:
            return pod_requests(pod).amount(STORAGE).value
        case _:
            return 0


def quantity(value: int, binary: bool) -> str:
    """Format a number of bytes (``binary``), or of something else, as the API does."""
    return str(Amount(value * NANO, Notation.BINARY if binary else Notation.DECIMAL))
