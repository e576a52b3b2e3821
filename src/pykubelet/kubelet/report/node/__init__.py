"""The node as the cluster sees it: registration, status, lease and CSI drivers.

``NodeReporter`` owns the Node object, ``LeaseRenewer`` the Lease (heartbeat), ``CsiNodeReporter`` the CSINode object;
``kubelet/compose/cluster/build.py`` runs all three. Start reading in ``plan/node_object.py`` (pure), which computes the
status and the patches. Imports no package beside it.
"""

from pykubelet.kubelet.report.node.csi_node import CsiNodeReporter, CsiNodeState
from pykubelet.kubelet.report.node.lease import LeaseRenewer
from pykubelet.kubelet.report.node.node_reporter import NodeDeps, NodeReporter
from pykubelet.kubelet.report.node.node_types import Image, NodeConfig, NodeState, PressureConditions
from pykubelet.kubelet.report.node.plan.node_object import check_labels, host_ips, new_node, node_addresses, node_status
from pykubelet.kubelet.report.node.plan.readiness import images_are_due, readiness_faults

__all__ = [
    "CsiNodeReporter",
    "CsiNodeState",
    "Image",
    "LeaseRenewer",
    "NodeConfig",
    "NodeDeps",
    "NodeReporter",
    "NodeState",
    "PressureConditions",
    "check_labels",
    "host_ips",
    "images_are_due",
    "new_node",
    "node_addresses",
    "node_status",
    "readiness_faults",
]
