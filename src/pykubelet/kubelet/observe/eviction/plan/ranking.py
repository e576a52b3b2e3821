"""The order in which pods are evicted, and the messages of their evictions (pure)."""

from collections.abc import Iterable, Mapping

from pykubelet.kubelet.observe.eviction.eviction_types import (
    RESOURCE_OF,
    Observation,
    PodUse,
    Resource,
    Signal,
    Threshold,
)
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.podresources import MEMORY, pod_requests, requirements
from pykubelet.models.core_v1 import Pod
from pykubelet.models.quantity import NANO, Amount, Notation, parse

STORAGE = "ephemeral-storage"


def ranked(pods: Iterable[Pod], uses: Mapping[PodUID, PodUse], resource: Resource) -> list[Pod]:
    """Return the pods in the order of eviction.

    Pods whose usage exceeds their request come first, then those of low priority, then those with the largest excess.
    There are no requests for process ids. A pod whose usage is unknown comes before all others.
    """

    def key(pod: Pod) -> tuple[bool, bool, int, int]:
        use = uses.get(ref_of(pod).uid)
        if use is None:
            return (False, False, pod.spec.priority or 0, 0)
        used, asked = _used(use, resource), _asked(pod, resource)
        within = used <= asked if resource is not Resource.PIDS else True
        return (True, within, pod.spec.priority or 0, asked - used)

    return sorted(pods, key=key)


def message(pod: Pod, use: PodUse | None, threshold: Threshold, observed: Observation | None) -> str:
    """Return the message of an eviction."""
    resource = RESOURCE_OF[threshold.signal]
    text = f"The node was low on resource: {resource}. "
    if observed is not None:
        binary = threshold.signal in (Signal.MEMORY, Signal.NODEFS, Signal.IMAGEFS)
        least, left = quantity(threshold.least.of(observed.capacity), binary), quantity(observed.available, binary)
        text += f"Threshold quantity: {least}, available: {left}. "
    return text + "".join(_blame(pod, use, resource)) if use is not None else text


def _blame(pod: Pod, use: PodUse, resource: Resource) -> Iterable[str]:
    """Yield a sentence for each container whose usage exceeds its request."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        known = use.containers.get(container.name)
        used = known and {Resource.MEMORY: known.memory, Resource.STORAGE: known.disk}.get(resource)
        asked = parse(requirements(container).requests.get(resource, 0))
        if used and used > asked.value:
            yield (
                f"Container {container.name} was using {quantity(used, binary=True)}, request is {asked}, "
                f"has larger consumption of {resource}. "
            )


def _used(use: PodUse, resource: Resource) -> int:
    match resource:
        case Resource.MEMORY:
            return use.memory
        case Resource.STORAGE:
            return use.disk
        case Resource.INODES:
            return use.inodes
        case Resource.PIDS:
            return use.processes


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
