"""From requests and limits to what the kernel takes: CPU shares, quota, memory limits, huge pages.

Pure: values in, values out. The pod runtime puts `container_resources` and `sandbox_resources` into CRI
messages; the resource manager writes `pod_config` into the pod's own cgroup.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.resources.oom import oom_score_adj
from pykubelet.kubelet.types.podresources import (
    CPU,
    MEMORY,
    NO_RESOURCES,
    amounts,
    limit_declared,
    pod_limits,
    pod_requests,
    requirements,
)
from pykubelet.kubelet.types.qos import QosClass, is_critical, pod_qos
from pykubelet.linux.cgroups.types import UNLIMITED, CgroupResources
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod, ResourceRequirements

MIN_SHARES = 2
MAX_SHARES = 262_144
DEFAULT_PERIOD_US = 100_000
_SHARES_PER_CPU = 1024
_MIN_QUOTA_US = 1000
_PAGE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """What of the node and its configuration bears on these figures."""

    memory_capacity: Bytes
    cgroup_version: int = 2
    cpu_cfs_quota: bool = True
    cfs_period_us: int = DEFAULT_PERIOD_US
    hugepage_sizes: tuple[Bytes, ...] = ()
    """Page sizes which the node has."""
    swap_controller: bool = False
    """Whether the memory cgroups account for swap; then containers get none, or what is due to them of `swap`."""
    swap: Bytes = Bytes(0)
    """Swap of the node that Burstable pods share (`LimitedSwap`, KEP-2400); zero under `NoSwap`."""
    single_process_oom_kill: bool = False
    """On cgroup v2: kill one process when a container is out of memory instead of all of it."""
    pod_pids_limit: int = -1
    """Processes per pod; zero or less is no limit."""


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """Cgroup settings of one container or sandbox, as CRI LinuxContainerResources; zero leaves one unset."""

    cpu_shares: int = 0
    cpu_quota_us: int = 0
    """CPU time per period; -1 is no limit."""
    cpu_period_us: int = 0
    memory_limit: Bytes = Bytes(0)
    memory_swap_limit: Bytes = Bytes(0)
    """Memory and swap together (cgroup v1)."""
    oom_score_adj: int = 0
    hugepages: tuple[tuple[str, Bytes], ...] = ()
    """Limit by page size, the latter as the kernel names it (`2MB`)."""
    unified: tuple[tuple[str, str], ...] = ()
    """Files of a cgroup v2 and their content."""


def milli_cpu_to_shares(milli: MilliCPU) -> int:
    """Relative CPU weight (cgroup v1 scale): 1024 a CPU, 2 at least."""
    return max(MIN_SHARES, min(milli * _SHARES_PER_CPU // 1000, MAX_SHARES))


def milli_cpu_to_quota(milli: MilliCPU, period_us: int = DEFAULT_PERIOD_US) -> int:
    """CPU time per period in µs, 1 ms at least; 0 for no limit."""
    return max(milli * period_us // 1000, _MIN_QUOTA_US) if milli else 0


def page_size_name(size: Bytes) -> str:
    """A huge page size as the kernel and CRI name it: 2097152 → `2MB`. Raises Invalid for an odd size."""
    rest, unit = int(size), 0
    while rest and rest % 1024 == 0 and unit < len(_PAGE_UNITS) - 1:
        rest, unit = rest // 1024, unit + 1
    if rest <= 0 or rest > 1024:
        raise Invalid(f"{size} bytes is not the size of a huge page")
    return f"{rest}{_PAGE_UNITS[unit]}"


def container_resources(pod: Pod, container: Container | EphemeralContainer, policy: NodePolicy) -> LinuxResources:
    """Settings for one container. Without an own limit those of the pod as a whole hold (KEP-2837).

    Raises Invalid for what is no quantity.
    """
    # Ephemeral containers cannot have resources.
    own = requirements(container) if isinstance(container, Container) else NO_RESOURCES
    whole = pod.spec.resources or NO_RESOURCES
    requests, limits = amounts(own.requests), amounts(own.limits)
    pod_level = amounts(whole.limits)
    cpu_limit = limits.cpu or pod_level.cpu
    cpu_request = requests.cpu if CPU in requests else cpu_limit
    basic = _basic(cpu_request, cpu_limit, limits.memory or pod_level.memory, policy)
    return LinuxResources(
        cpu_shares=basic.cpu_shares,
        cpu_quota_us=basic.cpu_quota_us,
        cpu_period_us=basic.cpu_period_us,
        memory_limit=basic.memory_limit,
        memory_swap_limit=basic.memory_limit if _swap_off_v1(policy) else Bytes(0),
        oom_score_adj=oom_score_adj(pod, container, policy.memory_capacity),
        hugepages=_node_hugepages({**pod_level.hugepages, **limits.hugepages}, policy),
        unified=_unified(policy, _swap_share(pod, own, policy)),
    )


def sandbox_resources(pod: Pod, policy: NodePolicy) -> LinuxResources:
    """The sums of the pod without the overhead, for CRI LinuxPodSandboxConfig.resources."""
    requests, limits = pod_requests(pod, overhead=False), pod_limits(pod, overhead=False)
    return _basic(requests.cpu if CPU in requests else limits.cpu, limits.cpu, limits.memory, policy)


def overhead_resources(pod: Pod, policy: NodePolicy) -> LinuxResources | None:
    """The overhead of the runtime class, for CRI LinuxPodSandboxConfig.overhead; None when there is none."""
    if not pod.spec.overhead:
        return None
    overhead = amounts(pod.spec.overhead)
    return _basic(overhead.cpu, overhead.cpu, overhead.memory, policy)


def pod_config(pod: Pod, policy: NodePolicy) -> CgroupResources:
    """Settings of the pod's own cgroup, overhead included.

    A limit binds the pod as a whole only if every container has one. Raises Invalid for what is no quantity.
    """
    requests, limits = pod_requests(pod), pod_limits(pod)
    pids = policy.pod_pids_limit if policy.pod_pids_limit > 0 else None
    pages = _node_hugepages(requests.hugepages, policy)
    qos = pod_qos(pod)
    if qos is QosClass.BEST_EFFORT:
        return CgroupResources(cpu_shares=MIN_SHARES, pids_max=pids, hugepages=pages)
    everything = qos is QosClass.GUARANTEED
    cpu_bound = limits.cpu > 0 and (everything or limit_declared(pod, CPU))
    memory_bound = limits.memory > 0 and (everything or limit_declared(pod, MEMORY))
    quota = milli_cpu_to_quota(limits.cpu, policy.cfs_period_us) if policy.cpu_cfs_quota else UNLIMITED
    return CgroupResources(
        cpu_shares=milli_cpu_to_shares(requests.cpu),
        cpu_quota_us=quota if cpu_bound else None,
        cpu_period_us=policy.cfs_period_us if cpu_bound else None,
        memory_max=limits.memory if memory_bound else None,
        pids_max=pids,
        hugepages=pages,
    )


def pod_limits_wanted(pod: Pod, policy: NodePolicy) -> CgroupResources:
    """CPU and memory of the pod's own cgroup alone, as a resize writes them: what is not limited is `UNLIMITED`."""
    wanted = pod_config(pod, policy)
    return CgroupResources(
        cpu_shares=wanted.cpu_shares,
        cpu_quota_us=UNLIMITED if wanted.cpu_quota_us is None else wanted.cpu_quota_us,
        cpu_period_us=policy.cfs_period_us,
        memory_max=Bytes(UNLIMITED) if wanted.memory_max is None else wanted.memory_max,
    )


def burstable_shares(requests: Iterable[MilliCPU]) -> int:
    """The weight of all Burstable pods together, from the CPU request of each."""
    return milli_cpu_to_shares(MilliCPU(sum(requests)))


def _basic(cpu_request: MilliCPU, cpu_limit: MilliCPU, memory_limit: Bytes, policy: NodePolicy) -> LinuxResources:
    return LinuxResources(
        cpu_shares=milli_cpu_to_shares(cpu_request),
        cpu_quota_us=milli_cpu_to_quota(cpu_limit, policy.cfs_period_us) if policy.cpu_cfs_quota else 0,
        cpu_period_us=policy.cfs_period_us if policy.cpu_cfs_quota else 0,
        memory_limit=memory_limit,
    )


def swapping(pod: Pod, policy: NodePolicy) -> frozenset[str]:
    """Names of the containers that may swap."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(c.name for c in containers if policy.swap and _swap_share(pod, requirements(c), policy))


def _swap_off_v1(policy: NodePolicy) -> bool:
    return policy.swap_controller and policy.cgroup_version == 1


def _swap_share(pod: Pod, own: ResourceRequirements, policy: NodePolicy) -> Bytes:
    """The container's part of the node's swap: that of its memory request in the node's memory.

    None for pods that are critical or not Burstable, nor for containers whose request is nothing or the limit.
    """
    request, limit = amounts(own.requests).memory, amounts(own.limits).memory
    if is_critical(pod) or pod_qos(pod) is not QosClass.BURSTABLE or request == limit:
        return Bytes(0)
    if request > policy.memory_capacity:
        return Bytes(0)
    return Bytes(request * policy.swap // policy.memory_capacity)


def _unified(policy: NodePolicy, swap: Bytes) -> tuple[tuple[str, str], ...]:
    if policy.cgroup_version != 2:
        return ()
    files = [] if policy.single_process_oom_kill else [("memory.oom.group", "1")]
    if policy.swap_controller:
        files.append(("memory.swap.max", str(swap)))
    return tuple(files)


def _node_hugepages(wanted: Mapping[Bytes, Bytes], policy: NodePolicy) -> tuple[tuple[str, Bytes], ...]:
    """A limit for every page size of the node: what was asked for, else none at all."""
    return tuple((page_size_name(size), wanted.get(size, Bytes(0))) for size in policy.hugepage_sizes)
