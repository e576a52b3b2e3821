"""The node's labels, taints and allocatable resources for admission, gathered from several stages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pykubelet.kubelet.actuate.node import NodeFacts as ActuatorNode
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.admission import NodeFacts
from pykubelet.kubelet.types.podresources import Amounts, amounts
from pykubelet.linux import fsusage, system
from pykubelet.models.core_v1 import Node, Pod
from pykubelet.models.quantity import NANO, Amount, Notation, to_value
from pykubelet.models.scalars import Quantity

_DISK_SIGNAL: Final = "nodefs.available"
_DISK_DEFAULT: Final = "10%"
_STORAGE: Final = "ephemeral-storage"


class AdmissionNode:
    """The node, as `Admission` checks pods against it.

    Labels, taints and resources come from the Node object in a cluster, else from the configuration.
    """

    def __init__(
        self,
        settings: Settings,
        facts: ActuatorNode,
        registered: Callable[[], Node | None],
        conditions: Callable[[], Iterable[str]],
    ) -> None:
        """``registered`` returns the Node object of the API server; None without a cluster, or before it is known.

        ``conditions`` returns the pressure conditions.
        """
        self._conditions = conditions
        self._settings = settings
        self._facts = facts
        self._registered = registered
        self._local: Amounts | None = None

    def sysctl_refusal(self, pod: Pod) -> str | None:
        """Return why the pod's sysctls are forbidden, or None."""
        return self._facts.sysctls().refusal(pod)

    def node(self) -> NodeFacts:
        """Return the current properties of the node."""
        settings, there = self._settings, self._registered()
        given = settings.cluster.node_labels if settings.cluster else {}
        labels = {**standard_labels(settings.node_name), **given}
        allocatable: Mapping[str, Quantity] = {}
        if there is not None:
            # This label holds even before the Node object has been corrected.
            labels = {**there.metadata.labels, "kubernetes.io/os": "linux"}
            allocatable = there.status.allocatable
        return NodeFacts(
            name=settings.node_name,
            labels=labels,
            taints=there.spec.taints if there is not None else settings.config.register_with_taints,
            allocatable=amounts(allocatable) if allocatable else self._local_amounts(),
            max_pods=max_pods(settings),
            app_armor=system.app_armor_enabled(),
            conditions=tuple(sorted(self._conditions(), reverse=True)),
            strict_groups=self._strict_groups(),
        )

    def _local_amounts(self) -> Amounts:
        if self._local is None:
            self._local = amounts(local_allocatable(self._settings, self._facts.allocatable()))
        return self._local

    def _strict_groups(self) -> bool | None:
        """Whether the runtime supports strict supplemental groups; None before its first reply."""
        if not self._facts.runtime_name:
            return None
        return bool(self._facts.supplemental_groups_policy)


def standard_labels(node_name: str) -> dict[str, str]:
    """Return the labels that every node has."""
    return {
        "kubernetes.io/hostname": node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": system.architecture(),
    }


def max_pods(settings: Settings) -> int:
    """Return the maximum number of pods on the node."""
    config = settings.config
    return min(config.max_pods, config.pods_per_core * system.cpu_count()) if config.pods_per_core else config.max_pods


def local_allocatable(settings: Settings, cpu_and_memory: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the allocatable resources of the machine; disk is that of the agent's root directory."""
    config = settings.config
    found = dict(cpu_and_memory)
    if config.local_storage_capacity_isolation:
        directory = next(each for each in (settings.root_dir, *settings.root_dir.parents) if each.exists())
        total = fsusage.filesystem(str(directory)).capacity
        reserved = sum(to_value(given.get(_STORAGE, 0)) for given in (config.kube_reserved, config.system_reserved))
        threshold = config.eviction_hard.get(_DISK_SIGNAL, _DISK_DEFAULT)
        kept = int(total * float(threshold[:-1]) / 100) if threshold.endswith("%") else to_value(threshold)
        found[_STORAGE] = str(max(0, total - reserved - kept))
    huge = 0
    for pages in system.hugepages():
        found[f"hugepages-{Amount(pages.size * NANO, Notation.BINARY)}"] = str(pages.size * pages.total)
        huge += pages.size * pages.total
    found["memory"] = str(max(0, to_value(found["memory"]) - huge))
    return found
