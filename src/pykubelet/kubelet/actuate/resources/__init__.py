"""What pods may use of the node: their cgroups, and the figures that go into CRI messages.

Owns /kubepods in every cgroup hierarchy. Called by the pod workers' resource step (cgroup of a pod), by
housekeeping (cgroups of pods that nobody wants) and by the pod runtime (figures).
"""

from pykubelet.kubelet.actuate.resources.cgroup_names import NameStyle
from pykubelet.kubelet.actuate.resources.linux_resources import (
    LinuxResources,
    NodePolicy,
    container_resources,
    overhead_resources,
    sandbox_resources,
)
from pykubelet.kubelet.actuate.resources.manager import ResourceManager, node_policy, open_manager
from pykubelet.kubelet.actuate.resources.types import PolicyConfig, ResourcesConfig, RootLimits

__all__ = [
    "LinuxResources",
    "NameStyle",
    "NodePolicy",
    "PolicyConfig",
    "ResourceManager",
    "ResourcesConfig",
    "RootLimits",
    "container_resources",
    "node_policy",
    "open_manager",
    "overhead_resources",
    "sandbox_resources",
]
