"""Entry to node mode: imports the modules that need the API client, only if there is a cluster.

An agent in standalone mode needs neither the time nor the memory for them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykubelet.base.clock import Clock
from pykubelet.kubelet.compose.compose_interfaces import ClusterDeps
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.desired.objects import Objects

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.api_access import ApiAccess
    from pykubelet.kubelet.compose.cluster import Cluster


async def make_ready(settings: Settings, clock: Clock) -> None:
    """Get a kubeconfig with the bootstrap token, if the agent has none yet."""
    if settings.cluster is None or settings.cluster.bootstrap_kubeconfig is None:
        return
    from pykubelet.kubelet.compose.certificates import bootstrap_if_needed

    await bootstrap_if_needed(settings, clock)


def open_access(settings: Settings, *, local: Objects, queue: EventQueue, recorders: Recorders) -> "ApiAccess | None":
    """Build the API server's client and objects; None without a cluster. Raises Invalid for a bad kubeconfig."""
    if settings.cluster is None:
        return None
    from pykubelet.kubelet.compose.api_access import ApiAccess

    return ApiAccess(
        settings,
        local=local,
        touched=queue.post_affected,
        metrics=recorders.metrics,
        clock=recorders.clock,
    )


def cluster_builder() -> "Callable[[ApiAccess, Recorders, ClusterDeps], Cluster]":
    """Return the builder of node mode (``cluster.py``)."""
    from pykubelet.kubelet.compose.cluster import build_cluster

    return build_cluster
