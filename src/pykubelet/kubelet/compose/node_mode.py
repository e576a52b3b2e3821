"""Entry to node mode: imports the modules that need the API client, only if there is a cluster.

An agent in standalone mode needs neither the time nor the memory for them.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import PodMux
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import RuntimeConditions

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts
    from pykubelet.kubelet.compose.cluster import Cluster, ClusterAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeps:
    """Dependencies of node mode."""

    pods: PodManager
    mux: PodMux
    statuses: StatusManager
    events: EventLog
    node: NodeFacts
    image_cri: CriClient
    conditions: Callable[[], RuntimeConditions]
    pleg_fault: Callable[[], str | None]
    clock: Clock
    pressure: Callable[[], AbstractSet[str]] = frozenset
    """Returns the pressure conditions of the node."""
    csi: "CsiParts | None" = None


async def make_ready(settings: Settings, clock: Clock) -> None:
    """Get a kubeconfig with the bootstrap token, if the agent has none yet."""
    if settings.cluster is None or settings.cluster.bootstrap_kubeconfig is None:
        return
    from pykubelet.kubelet.compose.certificates import bootstrap_if_needed

    await bootstrap_if_needed(settings, clock)


def open_access(settings: Settings, local: Objects, metrics: KubeletMetrics, clock: Clock) -> "ClusterAccess | None":
    """Build the API server's client and objects; None without a cluster. Raises Invalid for a bad kubeconfig."""
    if settings.cluster is None:
        return None
    from pykubelet.kubelet.compose.cluster import ClusterAccess

    return ClusterAccess(settings, local, metrics, clock)


def join(
    access: "ClusterAccess | None", deps: ClusterDeps, touched: Callable[[frozenset[PodUID]], None]
) -> "Cluster | None":
    """Build node mode; None without a cluster. ``touched`` is called with pods whose objects have changed."""
    if access is None:
        return None
    access.objects.on_pods(touched)
    from pykubelet.kubelet.compose.cluster import Cluster

    return Cluster(access, deps)
