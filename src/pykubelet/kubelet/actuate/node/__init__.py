"""Facts of this node for pods: addresses, resolver, allocatable resources, security defaults, runtime handlers.

``actuate/assembly.py`` builds them; the pod runtime, the volume manager and the status read them.
Start reading in ``facts.py``; ``capacity.py`` (pure) computes node allocatable.
"""

from pykubelet.kubelet.actuate.node.capacity import Reservations, allocatable, root_limits
from pykubelet.kubelet.actuate.node.facts import NodeFacts, NodeOptions

__all__ = ["NodeFacts", "NodeOptions", "Reservations", "allocatable", "root_limits"]
