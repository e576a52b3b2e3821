"""Configuration of the resource manager."""

from dataclasses import dataclass

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.resources.cgroup_names import NameStyle
from pykubelet.kubelet.actuate.resources.linux_resources import NodePolicy


@dataclass(frozen=True, slots=True)
class RootLimits:
    """What all pods together may use: the node's capacity less what is reserved (node allocatable)."""

    cpu: MilliCPU
    memory: Bytes | None = None
    """None sets no limit: nothing is reserved."""
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class ResourcesConfig:
    """What the manager is told once, at start."""

    policy: NodePolicy
    root_limits: RootLimits
    cgroup_root: str = "/"
    style: NameStyle = NameStyle.CGROUPFS
    per_qos: bool = True
    """False: pods get no cgroups of ours, as with `cgroupsPerQOS: false`."""
