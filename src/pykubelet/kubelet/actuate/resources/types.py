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
class PolicyConfig:
    """What the configuration says to a `NodePolicy`."""

    pod_pids_limit: int = -1
    cpu_cfs_quota: bool = True
    single_process_oom_kill: bool | None = None
    """None: what the version of the cgroups has by default."""
    limited_swap: bool = False
    refuse_swap: bool = False
    """The agent shall not start on a machine that swaps."""


@dataclass(frozen=True, slots=True)
class ResourcesConfig:
    """What the manager is told once, at start."""

    policy: NodePolicy
    root_limits: RootLimits
    cgroup_root: str = "/"
    style: NameStyle = NameStyle.CGROUPFS
    per_qos: bool = True
    """False: pods get no cgroups of ours, as with `cgroupsPerQOS: false`."""
