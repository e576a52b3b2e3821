"""Entry to node mode: imports the modules that need the API client, only if there is a cluster.

An agent in standalone mode needs neither the time nor the memory for them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.kubelet.actuate.host.tunables import check_tunables, set_tunables
from pykubelet.kubelet.compose.cluster.cluster_interfaces import ClusterDeps
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.desired.objects import Objects

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess
    from pykubelet.kubelet.compose.cluster.build import Cluster


async def make_ready(settings: Settings, clock: Clock) -> None:
    """Prepare the machine for a node of a cluster, and get a kubeconfig with the bootstrap token if there is none yet.

    Without a cluster, the machine's tunables belong to its owner: they are only checked, and only on request. Raises
    Invalid if a checked one has another value.
    """
    if settings.config.protect_kernel_defaults:
        await blocking.call("start-up", check_tunables)
    elif settings.cluster is not None:
        await blocking.call("start-up", set_tunables)
    if settings.cluster is None or settings.cluster.bootstrap_kubeconfig is None:
        return
    from pykubelet.kubelet.compose.cluster.certificates import bootstrap_if_needed

    await bootstrap_if_needed(settings, clock)


def open_access(settings: Settings, *, local: Objects, queue: EventQueue, recorders: Recorders) -> "ApiAccess | None":
    """Build the API server's client and objects; None without a cluster. Raises Invalid for a bad kubeconfig."""
    if settings.cluster is None:
        return None
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess

    return ApiAccess(
        settings,
        local=local,
        touched=queue.post_affected,
        metrics=recorders.metrics,
        clock=recorders.clock,
    )


def cluster_builder() -> "Callable[[ApiAccess, Recorders, ClusterDeps], Cluster]":
    """Return the builder of node mode (``build.py``)."""
    from pykubelet.kubelet.compose.cluster.build import build_cluster

    return build_cluster
