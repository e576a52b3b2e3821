"""Selects the dead containers and sandboxes to remove. Pure."""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerSummary,
    RuntimePod,
    SandboxSummary,
)

Removable = Callable[[PodUID], bool]
"""Whether all dead containers and sandboxes of the pod may be removed."""


class ContainerGcPolicy(Struct, frozen=True):
    """Limits of what garbage collection keeps (flags `minimum-container-ttl-duration` etc. of the Go kubelet)."""

    min_age: Seconds = 0.0
    """Seconds since its creation below which a dead container is kept; see ``ContainerAges``."""
    max_per_container: int = 1
    """Dead attempts to keep of each container; negative: all."""
    max_total: int = -1
    """Dead containers to keep on the node; negative: no limit."""


def garbage_containers(
    pods: Sequence[RuntimePod],
    policy: ContainerGcPolicy,
    removable: Removable,
    age: Callable[[ContainerSummary], Seconds],
) -> list[ContainerSummary]:
    """Containers to remove: all of removable pods, and of the others the oldest ones beyond the policy.

    The order is that of the attempts in a container, and that of their ages among several; an attempt counts as no
    younger than the next one, since the wall clock may have been set back before the agent's start.
    """
    garbage: list[ContainerSummary] = []
    units: list[list[ContainerSummary]] = []
    ages: dict[ContainerID, Seconds] = {}
    for pod in pods:
        by_name: dict[str, list[ContainerSummary]] = {}
        next_ages: dict[str, Seconds] = {}
        for container in pod.containers:
            least = next_ages.get(container.name, 0.0)
            ages[container.id] = next_ages[container.name] = max(least, age(container))
            if container.state is not ContainerState.RUNNING and ages[container.id] >= policy.min_age:
                by_name.setdefault(container.name, []).append(container)
        if removable(pod.uid):
            garbage += (c for unit in by_name.values() for c in unit)
        else:
            units += by_name.values()
    if policy.max_per_container >= 0:
        garbage += _cut(units, policy.max_per_container)
    if policy.max_total >= 0 and sum(map(len, units)) > policy.max_total:
        # First reduce each container to an equal share, then remove the oldest of the node.
        garbage += _cut(units, max(1, policy.max_total // len(units)))
        rest = sorted((c for unit in units for c in unit), key=lambda c: ages[c.id])
        garbage += rest[policy.max_total :]
    return garbage


def _cut(units: list[list[ContainerSummary]], keep: int) -> list[ContainerSummary]:
    """Shorten each list, newest first, to ``keep`` entries; return the removed entries."""
    cut = [container for unit in units for container in unit[keep:]]
    for unit in units:
        del unit[keep:]
    return cut


def garbage_sandboxes(
    pods: Sequence[RuntimePod], removed: Collection[ContainerID], removable: Removable
) -> list[SandboxSummary]:
    """Sandboxes to remove: not ready, without containers, and not the newest sandbox of a pod that is kept."""
    garbage: list[SandboxSummary] = []
    for pod in pods:
        in_use = {c.sandbox_id for c in pod.containers if c.id not in removed}
        candidates = pod.sandboxes if removable(pod.uid) else pod.sandboxes[1:]
        garbage += (s for s in candidates if not s.ready and s.id not in in_use)
    return garbage
