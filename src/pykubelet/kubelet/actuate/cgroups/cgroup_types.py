"""Configuration of the resource manager."""

from dataclasses import dataclass

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups.plan.cgroup_names import NameStyle
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import NodePolicy


@dataclass(frozen=True, slots=True)
class RootLimits:
    """Limits of all pods together: node allocatable, that is capacity minus reservations."""

    cpu: MilliCPU
    memory: Bytes | None = None
    """None: no limit, since nothing is reserved."""
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Configuration of a `NodePolicy`."""

    pod_pids_limit: int = -1
    cpu_cfs_quota: bool = True
    single_process_oom_kill: bool | None = None
    """None: the default of the cgroup version."""
    limited_swap: bool = False
    refuse_swap: bool = False
    """Whether the agent must not start on a machine with swap."""


@dataclass(frozen=True, slots=True)
class PodCgroupConfig:
    """Configuration of the resource manager, fixed at the start."""

    policy: NodePolicy
    root_limits: RootLimits
    cgroup_root: str = "/"
    style: NameStyle = NameStyle.CGROUPFS
    per_qos: bool = True
    """`cgroupsPerQOS`; false: pods get no cgroups of their own."""
