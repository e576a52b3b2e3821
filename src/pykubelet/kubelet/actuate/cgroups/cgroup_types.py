"""Configuration of the pods' cgroups and of the cgroups above them."""

from msgspec import Struct

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import DEFAULT_PERIOD_US, NodePolicy
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import MemoryQos
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle
from pykubelet.linux.cgroups import CgroupResources


class RootLimits(Struct, frozen=True):
    """Limits of all pods together: node allocatable, that is capacity minus reservations."""

    cpu: MilliCPU
    memory: Bytes | None = None
    """None: no limit, since nothing is reserved; a limit that an earlier configuration has left is removed."""
    pids: int | None = None
    """As ``memory``."""


class ReservedCgroup(Struct, frozen=True):
    """An existing cgroup of daemons, to which what is reserved for them is applied as its limits."""

    title: str
    """As in events: ``system`` or ``kube``."""
    path: str
    """As configured: a path of the cgroupfs driver, or the path or name of a slice."""
    limits: CgroupResources


class PolicyConfig(Struct, frozen=True):
    """Configuration of a `NodePolicy`."""

    pod_pids_limit: int = -1
    cpu_cfs_quota: bool = True
    cfs_period_us: int = DEFAULT_PERIOD_US
    refuse_v1: bool = False
    """Whether the agent must not start on a machine with cgroup v1 (`failCgroupV1`)."""
    single_process_oom_kill: bool | None = None
    """None: the default of the cgroup version."""
    limited_swap: bool = False
    refuse_swap: bool = False
    """Whether the agent must not start on a machine with swap."""
    memory_qos: MemoryQos | None = None
    """Requested settings of MemoryQoS (a feature gate); None: none."""


class PodCgroupConfig(Struct, frozen=True):
    """Configuration of `PodCgroupManager`, fixed at the start."""

    policy: NodePolicy
    root_limits: RootLimits
    cgroup_root: str = "/"
    style: NameStyle = NameStyle.CGROUPFS
    per_qos: bool = True
    """`cgroupsPerQOS`; false: pods get no cgroups of their own."""
    reserved: tuple[ReservedCgroup, ...] = ()
