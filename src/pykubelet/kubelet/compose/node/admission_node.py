"""The node's labels, taints and allocatable resources for admission, gathered from several stages."""

from collections.abc import Callable, Iterable, Mapping

from pykubelet.kubelet.actuate.node import NodeFacts as ActuatorNode
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.admission import NodeProperties
from pykubelet.kubelet.types.resources.allocatable import pod_limit
from pykubelet.kubelet.types.resources.podresources import amounts
from pykubelet.linux import system
from pykubelet.models.core_v1 import Node, Pod
from pykubelet.models.scalars import Quantity


class AdmissionNode:
    """The node, as `Admission` checks pods against it.

    Labels, taints and resources come from the Node object in a cluster, else from the configuration.
    """

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        facts: ActuatorNode,
        registered: Callable[[], Node | None],
        conditions: Callable[[], Iterable[str]],
        shutting_down: Callable[[], bool],
    ) -> None:
        """``settings`` returns those in force.

        ``registered`` returns the Node object of the API server; None without a cluster, or before it is known.

        ``conditions`` returns the pressure conditions, ``shutting_down`` whether the machine is shutting down.
        """
        self._shutting_down = shutting_down
        self._conditions = conditions
        self._settings = settings
        self._facts = facts
        self._registered = registered

    def sysctl_refusal(self, pod: Pod) -> str | None:
        """Return why the pod's sysctls are forbidden, or None."""
        return self._facts.sysctls().refusal(pod)

    def node(self) -> NodeProperties:
        """Return the current properties of the node."""
        settings, there = self._settings(), self._registered()
        given = settings.cluster.node_labels if settings.cluster else {}
        labels = {**standard_labels(settings.node_name), **given}
        allocatable: Mapping[str, Quantity] = {}
        if there is not None:
            # This label holds even before the Node object has been corrected.
            labels = {**there.metadata.labels, "kubernetes.io/os": "linux"}
            allocatable = there.status.allocatable
        return NodeProperties(
            name=settings.node_name,
            labels=labels,
            taints=there.spec.taints if there is not None else settings.config.register_with_taints,
            allocatable=amounts(allocatable or self._facts.allocatable()),
            max_pods=pod_limit(settings.config.max_pods, settings.config.pods_per_core, system.cpu_count()),
            app_armor=system.app_armor_enabled(),
            conditions=tuple(sorted(self._conditions(), reverse=True)),
            strict_groups=self._strict_groups(),
            shutting_down=self._shutting_down(),
        )

    def _strict_groups(self) -> bool | None:
        """Whether the runtime supports strict supplemental groups; None before its first reply."""
        if not self._facts.runtime_name:
            return None
        return bool(self._facts.runtime.supplemental_groups_policy)


def standard_labels(node_name: str) -> dict[str, str]:
    """Return the labels that every node has."""
    return {
        "kubernetes.io/hostname": node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": system.architecture(),
    }
