"""Cgroups of pods, and the resource settings in CRI messages.

Owns /kubepods in every cgroup hierarchy. Callers are the pod workers (cgroup of a pod), housekeeping (cgroups of
orphans) and the pod runtime (CRI settings). May import ``linux``, ``kubelet/types`` and ``kubelet/config``. Start
reading in ``cgroup_manager.py`` (pods), then ``qos_levels.py`` (the cgroups above them);
``plan/linux_resources.py`` (pure) converts requests and limits to kernel settings.
"""

from pykubelet.kubelet.actuate.cgroups.cgroup_manager import PodCgroupManager, open_manager
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PodCgroupConfig, PolicyConfig, ReservedCgroup, RootLimits
from pykubelet.kubelet.actuate.cgroups.node_policy import check_policy, node_policy
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import (
    LinuxResources,
    NodePolicy,
    container_resources,
    overhead_resources,
    sandbox_resources,
    swapping,
)
from pykubelet.kubelet.actuate.cgroups.policy_config import policy_config
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle

__all__ = [
    "LinuxResources",
    "NameStyle",
    "NodePolicy",
    "PodCgroupConfig",
    "PodCgroupManager",
    "PolicyConfig",
    "ReservedCgroup",
    "RootLimits",
    "check_policy",
    "container_resources",
    "node_policy",
    "open_manager",
    "overhead_resources",
    "policy_config",
    "sandbox_resources",
    "swapping",
]
