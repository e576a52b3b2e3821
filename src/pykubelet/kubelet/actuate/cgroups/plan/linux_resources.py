"""Converts requests and limits to kernel settings: CPU shares, quota, memory limits, huge pages. Pure.

The pod runtime puts `container_resources` and `sandbox_resources` into CRI messages; `PodCgroupManager`
writes `pod_config` to the pod's cgroup.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import MemoryQos, Protection, container_files, pod_protection
from pykubelet.kubelet.actuate.cgroups.plan.oom_score import oom_score_adj
from pykubelet.kubelet.types.resources.pod_requests import (
    CPU,
    MEMORY,
    NO_RESOURCES,
    amounts,
    limit_declared,
    pod_limits,
    pod_requests,
    requirements,
)
from pykubelet.kubelet.types.resources.qos import QosClass, is_critical, pod_qos
from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupResources
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod, ResourceRequirements

MIN_SHARES = 2
MAX_SHARES = 262_144
DEFAULT_PERIOD_US = 100_000
_SHARES_PER_CPU = 1024
_MIN_QUOTA_US = 1000
_PAGE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


class NodePolicy(Struct, frozen=True):
    """Facts and configuration of the node that the settings depend on."""

    memory_capacity: Bytes
    cgroup_version: int = 2
    cpu_cfs_quota: bool = True
    cfs_period_us: int = DEFAULT_PERIOD_US
    hugepage_sizes: tuple[Bytes, ...] = ()
    """Huge page sizes of the node, in bytes."""
    swap_controller: bool = False
    """Whether memory cgroups account for swap; then containers get no swap, or their share of `swap`."""
    swap: Bytes = Bytes(0)
    """Swap of the node that Burstable pods share (`LimitedSwap`, KEP-2400); zero under `NoSwap`."""
    single_process_oom_kill: bool = False
    """On cgroup v2: when a container is out of memory, kill one process instead of all its processes."""
    pod_pids_limit: int = -1
    """Maximum number of processes per pod; zero or less: no limit."""
    memory_qos: MemoryQos | None = None
    """None: off, or cgroup v1, which cannot do it."""


class LinuxResources(Struct, frozen=True):
    """Cgroup settings of one container or sandbox, as CRI LinuxContainerResources; zero leaves one unset."""

    cpu_shares: int = 0
    cpu_quota_us: int = 0
    """CPU time per period; -1: no limit."""
    cpu_period_us: int = 0
    memory_limit: Bytes = Bytes(0)
    memory_swap_limit: Bytes = Bytes(0)
    """Memory and swap together (cgroup v1)."""
    oom_score_adj: int = 0
    hugepages: tuple[tuple[str, Bytes], ...] = ()
    """Limits in bytes by page size, named as by the kernel (`2MB`)."""
    unified: tuple[tuple[str, str], ...] = ()
    """Files of a v2 cgroup and their content."""


def milli_cpu_to_shares(milli: MilliCPU) -> int:
    """CPU shares (cgroup v1 scale): 1024 per CPU, at least 2."""
    return max(MIN_SHARES, min(milli * _SHARES_PER_CPU // 1000, MAX_SHARES))


def milli_cpu_to_quota(milli: MilliCPU, period_us: int = DEFAULT_PERIOD_US) -> int:
    """CPU time per period in µs, at least 1 ms; 0: no limit."""
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
    """Settings of one container. Without a limit of its own, the pod-level limit applies (KEP-2837).

    Raises Invalid for an invalid quantity.
    """
    # Ephemeral containers cannot have resources.
    own = requirements(container) if isinstance(container, Container) else NO_RESOURCES
    whole = pod.spec.resources or NO_RESOURCES
    requests, limits = amounts(own.requests), amounts(own.limits)
    pod_level = amounts(whole.limits)
    cpu_limit = limits.cpu or pod_level.cpu
    cpu_request = requests.cpu if CPU in requests else cpu_limit
    memory_limit = limits.memory or pod_level.memory
    basic = _basic(cpu_request, cpu_limit, memory_limit, policy)
    qos_files: tuple[tuple[str, str], ...] = ()
    if policy.memory_qos is not None:
        memory_request = requests.memory if MEMORY in requests else limits.memory
        qos_files = container_files(pod, memory_request, memory_limit, policy.memory_qos)
    return LinuxResources(
        cpu_shares=basic.cpu_shares,
        cpu_quota_us=basic.cpu_quota_us,
        cpu_period_us=basic.cpu_period_us,
        memory_limit=basic.memory_limit,
        memory_swap_limit=basic.memory_limit if _swap_off_v1(policy) else Bytes(0),
        oom_score_adj=oom_score_adj(pod, container, policy.memory_capacity),
        hugepages=_node_hugepages({**pod_level.hugepages, **limits.hugepages}, policy),
        unified=(*_unified(policy, _swap_share(pod, own, policy)), *qos_files),
    )


def sandbox_resources(pod: Pod, policy: NodePolicy) -> LinuxResources:
    """Sums of the pod without overhead, for LinuxPodSandboxConfig.resources of CRI."""
    requests, limits = pod_requests(pod, overhead=False), pod_limits(pod, overhead=False)
    return _basic(requests.cpu if CPU in requests else limits.cpu, limits.cpu, limits.memory, policy)


def overhead_resources(pod: Pod, policy: NodePolicy) -> LinuxResources | None:
    """Overhead of the RuntimeClass, for LinuxPodSandboxConfig.overhead of CRI; None without overhead."""
    if not pod.spec.overhead:
        return None
    overhead = amounts(pod.spec.overhead)
    return _basic(overhead.cpu, overhead.cpu, overhead.memory, policy)


def pod_config(pod: Pod, policy: NodePolicy) -> CgroupResources:
    """Settings of the pod's cgroup, with overhead.

    The pod has a limit only if every container has one. Raises Invalid for an invalid quantity.
    """
    requests, limits = pod_requests(pod), pod_limits(pod)
    pids = policy.pod_pids_limit if policy.pod_pids_limit > 0 else None
    pages = _node_hugepages(requests.hugepages, policy)
    qos = pod_qos(pod)
    protected = Protection() if policy.memory_qos is None else pod_protection(pod, policy.memory_qos)
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
        memory_min=protected.min,
        memory_low=protected.low,
        pids_max=pids,
        hugepages=pages,
    )


def pod_limits_wanted(pod: Pod, policy: NodePolicy) -> CgroupResources:
    """CPU and memory settings of the pod's cgroup for a resize, `UNLIMITED` where there is no limit."""
    wanted = pod_config(pod, policy)
    return CgroupResources(
        cpu_shares=wanted.cpu_shares,
        cpu_quota_us=UNLIMITED if wanted.cpu_quota_us is None else wanted.cpu_quota_us,
        cpu_period_us=policy.cfs_period_us,
        memory_max=Bytes(UNLIMITED) if wanted.memory_max is None else wanted.memory_max,
        memory_min=wanted.memory_min,
        memory_low=wanted.memory_low,
    )


def burstable_shares(requests: Iterable[MilliCPU]) -> int:
    """CPU shares of the Burstable class, from the CPU requests of its pods."""
    return milli_cpu_to_shares(MilliCPU(sum(requests)))


def _basic(cpu_request: MilliCPU, cpu_limit: MilliCPU, memory_limit: Bytes, policy: NodePolicy) -> LinuxResources:
    return LinuxResources(
        cpu_shares=milli_cpu_to_shares(cpu_request),
        cpu_quota_us=milli_cpu_to_quota(cpu_limit, policy.cfs_period_us) if policy.cpu_cfs_quota else 0,
        cpu_period_us=policy.cfs_period_us if policy.cpu_cfs_quota else 0,
        memory_limit=memory_limit,
    )


def swapping(pod: Pod, policy: NodePolicy) -> frozenset[str]:
    """Names of the containers that may use swap."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(c.name for c in containers if policy.swap and _swap_share(pod, requirements(c), policy))


def _swap_off_v1(policy: NodePolicy) -> bool:
    return policy.swap_controller and policy.cgroup_version == 1


def _swap_share(pod: Pod, own: ResourceRequirements, policy: NodePolicy) -> Bytes:
    """The container's share of the node's swap: the share of its memory request in the node's memory (KEP-2400).

    Zero for critical pods, for pods that are not Burstable, and for containers whose request is zero or the limit.
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
    """Limits for all page sizes of the node: the request, else zero."""
    return tuple((page_size_name(size), wanted.get(size, Bytes(0))) for size in policy.hugepage_sizes)
