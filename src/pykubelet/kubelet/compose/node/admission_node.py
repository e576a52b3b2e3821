"""The node's labels, taints and allocatable resources for admission, gathered from several stages."""

from collections.abc import Callable, Iterable

from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.admission import NodeProperties
from pykubelet.kubelet.desired.admission.plan.node_properties import in_cluster, in_order, own_labels
from pykubelet.kubelet.types.resources.allocatable import pod_limit
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.linux import system
from pykubelet.models.core_v1 import Node, Pod


class AdmissionNode:
    """The node, as `Admission` checks pods against it.

    ``desired/admission/plan/node_properties.py`` decides what counts of the configuration and of the Node object.
    """

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        facts: NodeFacts,
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
        settings = self._settings()
        given = settings.cluster.node_labels if settings.cluster else {}
        own = NodeProperties(
            name=settings.node_name,
            labels=own_labels(settings.node_name, system.architecture(), given),
            taints=settings.config.register_with_taints,
            allocatable=amounts(self._facts.allocatable()),
            max_pods=pod_limit(settings.config.max_pods, settings.config.pods_per_core, system.cpu_count()),
            app_armor=system.app_armor_enabled(),
            conditions=in_order(self._conditions()),
            strict_groups=self._facts.runtime.strict_groups,
            shutting_down=self._shutting_down(),
        )
        return in_cluster(own, self._registered())
