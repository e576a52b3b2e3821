"""The node as the cluster sees it: registration, status, lease.

``NodeReporter`` owns the Node object, ``LeaseKeeper`` the heartbeat, ``CsiNodeKeeper`` the CSINode object; all are run
by ``kubelet/compose/cluster.py``.
"""

from pykubelet.kubelet.report.node.compute_node import check_labels, host_ips
from pykubelet.kubelet.report.node.csi_node import CsiNodeKeeper
from pykubelet.kubelet.report.node.lease import LeaseKeeper
from pykubelet.kubelet.report.node.manager import NodeDeps, NodeReporter
from pykubelet.kubelet.report.node.types import Image, NodeConfig, NodeFacts, Pressure

__all__ = [
    "CsiNodeKeeper",
    "Image",
    "LeaseKeeper",
    "NodeConfig",
    "NodeDeps",
    "NodeFacts",
    "NodeReporter",
    "Pressure",
    "check_labels",
    "host_ips",
]
