"""The stages of one agent and, in a cluster, node mode: calls the builder of each, in the order of their needs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.node.addresses import NodeAddresses
from pykubelet.kubelet.compose.actuate import build_actuate
from pykubelet.kubelet.compose.cluster.cluster_interfaces import ClusterDeps
from pykubelet.kubelet.compose.cluster.entry import cluster_builder
from pykubelet.kubelet.compose.control import Control, build_control
from pykubelet.kubelet.compose.desired import Desired, build_desired
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.node.node_status import NodeHealth, NodeStatusDeps
from pykubelet.kubelet.compose.observe import Observers, build_observe
from pykubelet.kubelet.compose.report import Reports, build_report
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.models.core_v1 import Node

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.build import Cluster


class Stages(Struct, frozen=True, kw_only=True):
    """The stages that the servers show."""

    actuators: Actuators
    reports: Reports
    observers: Observers
    addresses: NodeAddresses
    cluster: "Cluster | None"
    """Node mode; None in standalone mode."""
    desired: Desired
    control: Control
    registered: Callable[[], Node | None]
    """Returns the Node object of the API server; None without one."""


def build_stages(ground: Foundation) -> Stages:
    """Build the stages: each takes the foundation and what was built before it. Raises Invalid for bad settings."""
    actuators = build_actuate(ground)
    reports = build_report(ground, actuators=actuators)
    observers = build_observe(ground, actuators=actuators, reports=reports)
    addresses = NodeAddresses(ground.settings, changed=actuators.node.learn_own_ips, clock=ground.recorders.clock)
    cluster = _cluster(ground, actuators, reports, observers=observers, addresses=addresses)
    registered = cluster.registered if cluster is not None else _never_registered
    desired = build_desired(ground, actuators=actuators, observers=observers, registered=registered)
    control = build_control(
        ground,
        actuators=actuators,
        reports=reports,
        observers=observers,
        admission=desired.admission,
        cluster=cluster,
    )
    return Stages(
        actuators=actuators,
        reports=reports,
        observers=observers,
        addresses=addresses,
        cluster=cluster,
        desired=desired,
        control=control,
        registered=registered,
    )


def _never_registered() -> Node | None:
    return None


def _cluster(
    ground: Foundation, actuators: Actuators, reports: Reports, *, observers: Observers, addresses: NodeAddresses
) -> "Cluster | None":
    """Build node mode; None in standalone mode. Raises Invalid for labels that a node may not set itself."""
    if ground.access is None:
        return None
    deps = ClusterDeps(
        pods=ground.pods,
        mux=ground.mux,
        statuses=reports.statuses,
        status=node_status(ground, actuators, observers=observers, addresses=addresses),
        csi=actuators.csi,
        runtime_recovered=observers.runtime_recovered,
        node_read=ground.queue.post_node_read,
        shutdown_changed=observers.shutdown_changed,
    )
    return cluster_builder()(ground.access, ground.recorders, deps)


def node_status(
    ground: Foundation, actuators: Actuators, *, observers: Observers, addresses: NodeAddresses
) -> NodeStatusDeps:
    """Return what the Node object is made of."""
    csi = actuators.csi
    return NodeStatusDeps(
        settings=ground.live.current,
        node=actuators.node,
        image_cri=ground.clients.image_cri,
        addresses=addresses,
        health=NodeHealth(
            conditions=observers.health.current,
            pleg_fault=observers.pleg.healthy,
            shutdown_fault=observers.shutdown.fault,
        ),
        pressure=observers.eviction.conditions,
        volumes_in_use=csi.volumes.in_use if csi is not None else VolumesInUse,
        clock=ground.recorders.clock,
    )
