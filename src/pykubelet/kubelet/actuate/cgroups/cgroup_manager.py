"""Manages the cgroups of pods: one for each pod, below one for each QoS class, below one for all pods.

    ensure_pod  before the sandbox is created; returns the sandbox's `cgroup_parent`
    remove_pod  when no process of the pod is left, and for orphans that only `list_pods` has
    run         keeps the CPU weight of the Burstable class up to date

The kernel has the actual state: every call compares with it and is repeatable. If cgroups cannot be created, the agent
still runs pods, without pod-level limits; `problem` has the reason for doctor.
"""

import asyncio
import logging
import os
from dataclasses import dataclass, replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid, Permanent, PykubeletError, Transient
from pykubelet.base.units import Bytes, MilliCPU, Seconds
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PodCgroupConfig, PolicyConfig
from pykubelet.kubelet.actuate.cgroups.measured import MeasuredCgroups
from pykubelet.kubelet.actuate.cgroups.plan import cgroup_names as names
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import (
    MIN_SHARES,
    LinuxResources,
    NodePolicy,
    burstable_shares,
    container_resources,
    milli_cpu_to_shares,
    overhead_resources,
    pod_config,
    pod_limits_wanted,
    sandbox_resources,
    swapping,
)
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import MemoryQos, level_protection
from pykubelet.kubelet.actuate.cgroups.reserved import enforce_reserved
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.podresources import pod_requests
from pykubelet.kubelet.types.qos import QosClass, pod_qos
from pykubelet.kubelet.types.work_meter import NoMeter, WorkMeter
from pykubelet.linux import system
from pykubelet.linux.cgroups import (
    UNLIMITED,
    CgroupDriver,
    CgroupResources,
    Layout,
    Mode,
    open_driver,
    open_systemd_driver,
    problem,
    systemd_problem,
)
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod

_log = logging.getLogger(__name__)

_DEBOUNCE: Seconds = 0.2
_REFRESH: Seconds = 60.0
_DEADLINE: Seconds = 30.0
_NO_LIVELOCK = (5, 9)
"""The first kernel in which memory.high does not stall a process for ever (commit b3ff92916af3)."""
_UNMEASURED = NoMeter()


@dataclass(frozen=True, slots=True)
class _Requests:
    """What the settings of the QoS classes depend on, of one pod."""

    qos: QosClass
    cpu: MilliCPU
    memory: Bytes


class PodCgroupManager:
    """Manages the cgroups of pods. `cgroups` None: they cannot be used, for the reason in `why_not`."""

    def __init__(
        self, *, cgroups: CgroupDriver | None, config: PodCgroupConfig, clock: Clock, why_not: str | None = None
    ) -> None:
        self._cgroups = cgroups
        self._config = config
        self._clock = clock
        self._problem = why_not
        self._root = names.root_name(config.cgroup_root)
        self._applied: dict[PodUID, CgroupResources] = {}
        self._requests: dict[PodUID, _Requests] = {}
        self._dirty = asyncio.Event()
        self._guard = Guard("cgroups.levels", clock.monotonic)

    @property
    def problem(self) -> str | None:
        """Why pods get no cgroup of their own, and the remedy, for doctor; None if they get one."""
        return self._problem

    async def start(self) -> list[str]:
        """Create the cgroups of the root and of the QoS classes, and apply the reservations of daemons to theirs.

        Returns what was enforced, as the texts of events. Without usable cgroups the agent runs on (see `problem`),
        unless reservations are to be enforced: then that raises a base error.
        """
        enforced = []
        if self._problem is None and self._cgroups is not None and self._config.per_qos:
            try:
                await blocking.call_to_end("cgroups", self._write_levels, deadline=_DEADLINE)
                enforced.append("Updated Node Allocatable limit across pods")
            except Transient as error:
                # It may be temporary (systemd is busy), and running without cgroups would last until the next restart.
                _log.warning("cgroup limits not set: retrying", extra={"error": str(error)})
                self._dirty.set()
            except PykubeletError as error:
                self._problem = str(error)
        if self._problem is not None:
            _log.error("cgroups unavailable: pods get no cgroup of their own", extra={"error": self._problem})
        for reserved in self._config.reserved:
            cgroups = self._usable()
            if cgroups is None:
                raise Permanent(f"enforceNodeAllocatable: cgroups cannot be used: {self._problem}")
            await blocking.call_to_end(
                "cgroups", enforce_reserved, cgroups, reserved, self._config.style, deadline=_DEADLINE
            )
            enforced.append(f"Updated limits on {reserved.title} reserved cgroup {reserved.path}")
        return enforced

    async def run(self) -> None:
        """Write the weights of the QoS classes when pods are added or removed, and once a minute."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._refresh(), name="cgroups-refresh")
            group.create_task(self._follow_pods(), name="cgroups-qos")

    async def ensure_pod(self, pod: Pod, *, resizing: bool = False) -> str:
        """Create or update the pod's cgroup; return CRI's `cgroup_parent`, "" without a cgroup.

        While the pod is ``resizing``, an existing cgroup is not changed: the resize updates it in order with the
        containers.

        Raises Invalid for invalid quantities, Transient or Permanent if the kernel rejects a setting.
        """
        cgroups = self._usable()
        if cgroups is None:
            return ""
        uid = ref_of(pod).uid
        path = self.cgroup_path(pod)
        wanted = pod_config(pod, self._config.policy)
        fresh = self._applied.get(uid) != wanted and not resizing
        await blocking.call_to_end(_owner(uid), _ensure, cgroups, path, wanted, fresh, deadline=_DEADLINE)
        if not resizing:
            self._note_applied(pod, wanted)
        return self.pod_parent(pod)

    async def pod_limits(self, pod: Pod) -> CgroupResources | None:
        """Current CPU and memory limits of the pod's cgroup; None if it has none of its own. Raises base errors."""
        cgroups = self._usable()
        if cgroups is None:
            return None
        owner = _owner(ref_of(pod).uid)
        return await blocking.call(owner, cgroups.limits, self.cgroup_path(pod), deadline=_DEADLINE)

    def wanted_limits(self, pod: Pod) -> CgroupResources:
        """Limits of the pod's cgroup by its spec. Raises Invalid for invalid quantities."""
        return pod_limits_wanted(pod, self._config.policy)

    async def set_pod_limits(self, pod: Pod, limits: CgroupResources) -> None:
        """Write the limits that are not None to the pod's cgroup. Raises base errors."""
        cgroups = self._usable()
        if cgroups is not None:
            self._applied.pop(ref_of(pod).uid, None)
            await blocking.call_to_end(
                _owner(ref_of(pod).uid), cgroups.update, self.cgroup_path(pod), limits, deadline=_DEADLINE
            )

    def resized(self, pod: Pod) -> None:
        """Note that the pod's cgroup has all its limits by the spec."""
        if self._usable() is not None:
            self._note_applied(pod, pod_config(pod, self._config.policy))

    def _note_applied(self, pod: Pod, applied: CgroupResources) -> None:
        uid = ref_of(pod).uid
        self._applied[uid] = applied
        requests, qos = pod_requests(pod), pod_qos(pod)
        if qos is not QosClass.BEST_EFFORT:
            self._note_requests(uid, _Requests(qos, requests.cpu, requests.memory))

    async def pod_memory(self, pod: Pod) -> Bytes | None:
        """Memory usage of the pod in bytes, with page cache; None without a cgroup. Raises base errors."""
        cgroups = self._usable()
        if cgroups is None:
            return None
        owner = _owner(ref_of(pod).uid)
        return (await blocking.call(owner, cgroups.stats, self.cgroup_path(pod), deadline=_DEADLINE)).memory_usage

    async def remove_pod(self, uid: PodUID) -> None:
        """Kill the processes in the pod's cgroup and remove it. Repeatable; raises Transient if something remains."""
        cgroups = self._usable()
        self._applied.pop(uid, None)
        if self._requests.pop(uid, None) is not None:
            self._dirty.set()
        if cgroups is None:
            return
        # After a restart the QoS class is unknown, so the cgroups of all classes are removed.
        paths = [self._path(names.pod_name(self._root, qos, uid)) for qos in QosClass]
        await blocking.call_to_end(_owner(uid), _delete_all, cgroups, paths, deadline=_DEADLINE)

    async def list_pods(self) -> set[PodUID]:
        """List the pods that have a cgroup, also of an earlier agent, for housekeeping."""
        cgroups = self._usable()
        return await blocking.call("cgroups", self._list, cgroups, deadline=_DEADLINE) if cgroups else set()

    def pod_parent(self, pod: Pod) -> str:
        """CRI's `cgroup_parent` of a pod, "" if it has no cgroup of its own."""
        if self._usable() is None:
            return ""
        return names.cri_parent(self._name(pod), self._config.style)

    def pod_resources(self, pod: Pod) -> tuple[LinuxResources, LinuxResources | None]:
        """Sums over the pod's containers, and its overhead, for the sandbox."""
        policy = self._config.policy
        return sandbox_resources(pod, policy), overhead_resources(pod, policy)

    def swapping(self, pod: Pod) -> frozenset[str]:
        """Names of the pod's containers that may use swap."""
        return swapping(pod, self._config.policy)

    def container_resources(self, pod: Pod, container: Container | EphemeralContainer) -> LinuxResources:
        """Limits, weights and OOM score of a container."""
        return container_resources(pod, container, self._config.policy)

    def cgroup_path(self, pod: Pod) -> str:
        """Path of the pod's cgroup below the root of the hierarchy. Raises Invalid for an invalid uid."""
        return self._path(self._name(pod))

    def _path(self, name: names.CgroupName) -> str:
        return names.to_path(name, self._config.style)

    def _name(self, pod: Pod) -> names.CgroupName:
        return names.pod_name(self._root, pod_qos(pod), ref_of(pod).uid)

    def _usable(self) -> CgroupDriver | None:
        return self._cgroups if self._problem is None and self._config.per_qos else None

    def _note_requests(self, uid: PodUID, requests: "_Requests") -> None:
        if self._requests.get(uid) != requests:
            self._requests[uid] = requests
            self._dirty.set()

    async def _refresh(self) -> None:
        while True:
            await self._clock.sleep(_REFRESH)
            self._dirty.set()

    async def _follow_pods(self) -> None:
        while True:
            await self._dirty.wait()
            # Many pods that start at the same time cause one write.
            await self._clock.sleep(_DEBOUNCE)
            self._dirty.clear()
            if self._usable() is None:
                continue
            with self._guard.item(self._path(self._root)):
                await blocking.call_to_end("cgroups", self._write_levels, deadline=_DEADLINE)

    def _write_levels(self) -> None:
        """Write the settings of the root and of the QoS classes. Guaranteed pods are directly in the root."""
        assert self._cgroups is not None
        limits = self._config.root_limits
        requests = tuple(self._requests.values())
        protected = level_protection(((each.qos, each.memory) for each in requests), self._config.policy.memory_qos)
        levels = {
            self._root: CgroupResources(
                cpu_shares=milli_cpu_to_shares(limits.cpu),
                memory_max=Bytes(UNLIMITED) if limits.memory is None else limits.memory,
                memory_min=protected[QosClass.GUARANTEED].min,
                pids_max=UNLIMITED if limits.pids is None else limits.pids,
            ),
            names.qos_name(self._root, QosClass.BURSTABLE): CgroupResources(
                cpu_shares=burstable_shares(each.cpu for each in requests if each.qos is QosClass.BURSTABLE),
                memory_low=protected[QosClass.BURSTABLE].low,
            ),
            names.qos_name(self._root, QosClass.BEST_EFFORT): CgroupResources(cpu_shares=MIN_SHARES),
        }
        for name, resources in levels.items():
            self._cgroups.create(self._path(name), resources)

    def _list(self, cgroups: CgroupDriver) -> set[PodUID]:
        levels = (self._path(names.qos_name(self._root, qos)) for qos in QosClass)
        children = (child for level in levels for child in cgroups.children(level))
        uids = (names.uid_of(names.component(child, self._config.style)) for child in children)
        return {uid for uid in uids if uid is not None}


def open_manager(
    layout: Layout, config: PodCgroupConfig, clock: Clock, meter: WorkMeter = _UNMEASURED
) -> PodCgroupManager:
    """Create the manager for this machine's cgroups, or a degraded one if they cannot be used."""
    systemd = config.style is names.NameStyle.SYSTEMD
    why_not = systemd_problem(layout) if systemd else problem(layout)
    opened = open_systemd_driver if systemd else open_driver
    cgroups = None if why_not else MeasuredCgroups(driver=opened(layout), meter=meter, clock=clock)
    return PodCgroupManager(cgroups=cgroups, config=config, clock=clock, why_not=why_not)


def node_policy(layout: Layout, config: PolicyConfig) -> NodePolicy:
    """Build the policy from the machine's memory, huge page sizes and cgroups. Blocks briefly.

    Raises Invalid if the configuration needs cgroup v2 and the machine has v1, or if swap is on and must not be.
    """
    if config.refuse_v1 and layout.mode is not Mode.V2:
        raise Invalid(
            "failCgroupV1: kubelet is configured to not run on a host using cgroup v1: boot with "
            "systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false"
        )
    v2_only = [
        *(["memorySwap.swapBehavior: LimitedSwap"] if config.limited_swap else []),
        *(["singleProcessOOMKill: false"] if config.single_process_oom_kill is False else []),
    ]
    if v2_only and layout.version == 1:
        raise Invalid(f"{' and '.join(v2_only)}: cgroup v2 is required, but this machine has version 1")
    meminfo = system.meminfo()
    if config.refuse_swap and meminfo.swap_total:
        raise Invalid("swap is on: switch it off (swapoff -a), or set failSwapOn: false")
    memory_root = layout.controllers.get("memory")
    swap = (
        system.own_cgroup_has("memory.swap.max")
        if layout.mode is Mode.V2
        else memory_root is not None and (memory_root / "memory.memsw.limit_in_bytes").exists()
    )
    return NodePolicy(
        memory_capacity=meminfo.total,
        cgroup_version=layout.version,
        cpu_cfs_quota=config.cpu_cfs_quota,
        cfs_period_us=config.cfs_period_us,
        hugepage_sizes=tuple(pages.size for pages in system.hugepages()),
        swap_controller=swap,
        swap=meminfo.swap_total if config.limited_swap else Bytes(0),
        single_process_oom_kill=bool(config.single_process_oom_kill),
        pod_pids_limit=config.pod_pids_limit,
        memory_qos=_memory_qos(layout, config.memory_qos),
    )


def _memory_qos(layout: Layout, wanted: MemoryQos | None) -> MemoryQos | None:
    if wanted is None:
        return None
    if layout.mode is not Mode.V2:
        _log.warning("memory QoS not applied: cgroup v2 is required")
        return None
    if system.kernel_release() < _NO_LIVELOCK:
        _log.warning(
            "memory QoS: throttling by memory.high can hang processes on this kernel", extra={"fixed_in": "5.9"}
        )
    return replace(wanted, page_size=Bytes(os.sysconf("SC_PAGE_SIZE")))


def _ensure(cgroups: CgroupDriver, path: str, wanted: CgroupResources, fresh: bool) -> None:
    if fresh or not cgroups.exists(path):
        cgroups.create(path, wanted)


def _delete_all(cgroups: CgroupDriver, paths: list[str]) -> None:
    for path in paths:
        cgroups.delete(path)


def _owner(uid: PodUID) -> str:
    return f"pod/{uid}/cgroup"
