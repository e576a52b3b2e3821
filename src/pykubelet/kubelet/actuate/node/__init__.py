"""Facts of this node that pods are made from: addresses, resolver, allocatable resources, security defaults.

Built by ``main.py``; asked by the pod runtime, the volumes and the status.
"""

from pykubelet.kubelet.actuate.node.capacity import Reservations, allocatable, root_limits
from pykubelet.kubelet.actuate.node.facts import NodeFacts, NodeOptions

__all__ = ["NodeFacts", "NodeOptions", "Reservations", "allocatable", "root_limits"]
