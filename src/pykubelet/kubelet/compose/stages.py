"""The stages of one agent and, in a cluster, node mode: calls the builder of each, in the order of their needs."""

from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.host.addresses import NodeAddresses
from pykubelet.kubelet.compose.actuate import build_actuate
from pykubelet.kubelet.compose.cluster.cluster_interfaces import ClusterDeps
from pykubelet.kubelet.compose.cluster.entry import cluster_builder
from pykubelet.kubelet.compose.control import Control, build_control
from pykubelet.kubelet.compose.desired import DesiredComponents, build_desired
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.node.local_node import LocalNode
from pykubelet.kubelet.compose.node.node_status import NodeHealth, NodeStatusDeps, NodeStatusReader
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
    desired: DesiredComponents
    control: Control
    local_node: LocalNode
    """The Node object that the local API shows."""


def build_stages(foundation: Foundation) -> Stages:
    """Build the stages: each takes the foundation and what was built before it. Raises Invalid for bad settings."""
    actuators = build_actuate(foundation)
    reports = build_report(foundation, actuators=actuators)
    observers = build_observe(foundation, actuators=actuators, reports=reports)
    addresses = NodeAddresses(
        foundation.settings, changed=actuators.node.learn_own_ips, clock=foundation.recorders.clock
    )
    reader = _node_status_reader(foundation, actuators, observers=observers, addresses=addresses)
    cluster = _cluster(foundation, actuators, reports, observers=observers, reader=reader)
    registered = cluster.node.current if cluster is not None else _never_registered
    desired = build_desired(foundation, actuators=actuators, observers=observers, registered=registered)
    control = build_control(
        foundation,
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
        local_node=LocalNode(
            name=foundation.settings.node_name, registered=registered, reader=reader, clock=foundation.recorders.clock
        ),
    )


def _never_registered() -> Node | None:
    return None


def _cluster(
    foundation: Foundation, actuators: Actuators, reports: Reports, *, observers: Observers, reader: NodeStatusReader
) -> "Cluster | None":
    """Build node mode; None in standalone mode. Raises Invalid for labels that a node may not set itself."""
    if foundation.access is None:
        return None
    deps = ClusterDeps(
        pods=foundation.tables.pods,
        mux=foundation.tables.mux,
        statuses=reports.statuses,
        facts=actuators.node,
        reader=reader,
        csi=actuators.volumes.csi,
        node_read=foundation.tables.queue.post_node_read,
        node_changed=observers.node_changed,
    )
    return cluster_builder()(foundation.access, foundation.recorders, deps)


def _node_status_reader(
    foundation: Foundation, actuators: Actuators, *, observers: Observers, addresses: NodeAddresses
) -> NodeStatusReader:
    """Build what reads the values that the Node object is made of."""
    csi = actuators.volumes.csi
    deps = NodeStatusDeps(
        settings=foundation.live.current,
        node=actuators.node,
        image_cri=foundation.clients.image_cri,
        addresses=addresses,
        health=NodeHealth(
            conditions=observers.health.reported,
            pleg_fault=observers.pleg.healthy,
            shutdown_fault=observers.shutdown.fault,
        ),
        pressure=observers.eviction.conditions,
        volumes_in_use=csi.volumes.in_use if csi is not None else VolumesInUse,
        clock=foundation.recorders.clock,
    )
    return NodeStatusReader(deps)
