"""The door to node mode: whatever needs the API client is imported here, and only when there is a cluster.

An agent that runs manifests alone pays neither the time nor the memory.
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


@dataclass(frozen=True, slots=True)
class ClusterDeps:
    """The parts of the agent that node mode works with."""

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
    """Conditions of the node that say what it runs short of."""
    csi: "CsiParts | None" = None


async def make_ready(settings: Settings, clock: Clock) -> None:
    """What has to be there before the agent can talk to its cluster: a kubeconfig, got with a bootstrap token."""
    if settings.cluster is None or settings.cluster.bootstrap_kubeconfig is None:
        return
    from pykubelet.kubelet.compose.certificates import bootstrap_if_needed

    await bootstrap_if_needed(settings, clock)


def open_access(settings: Settings, local: Objects, metrics: KubeletMetrics, clock: Clock) -> "ClusterAccess | None":
    """The API server's client and objects; None without a cluster. Invalid: the kubeconfig cannot be used."""
    if settings.cluster is None:
        return None
    from pykubelet.kubelet.compose.cluster import ClusterAccess

    return ClusterAccess(settings, local, metrics, clock)


def join(
    access: "ClusterAccess | None", deps: ClusterDeps, touched: Callable[[frozenset[PodUID]], None]
) -> "Cluster | None":
    """Node mode over the agent's stages; None without a cluster. ``touched`` hears of pods to be looked at."""
    if access is None:
        return None
    access.objects.on_pods(touched)
    from pykubelet.kubelet.compose.cluster import Cluster

    return Cluster(access, deps)
