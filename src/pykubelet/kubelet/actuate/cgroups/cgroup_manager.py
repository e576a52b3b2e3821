"""Manages the cgroups of pods: one for each pod, below one for each QoS class, below one for all pods.

    ensure_pod  before the sandbox is created; returns the sandbox's `cgroup_parent`
    remove_pod  when no process of the pod is left, and for orphans that only `list_pods` has
    levels      the cgroups above those of the pods

The kernel has the actual state: every call compares with it and is repeatable. If cgroups cannot be created, the agent
still runs pods, without pod-level limits; `levels.problem` has the reason for doctor.
"""

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PodCgroupConfig
from pykubelet.kubelet.actuate.cgroups.measured import MeasuredCgroups
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import (
    LinuxResources,
    NodePolicy,
    container_resources,
    overhead_resources,
    pod_config,
    pod_limits_wanted,
    sandbox_resources,
)
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels, QosRequests
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.work_meter import NoMeter, WorkMeter
from pykubelet.kubelet.types.resources import cgroup_names as names
from pykubelet.kubelet.types.resources.pod_requests import pod_requests
from pykubelet.kubelet.types.resources.qos import QosClass, pod_qos
from pykubelet.linux.cgroups import (
    CgroupDriver,
    CgroupResources,
    Layout,
    open_driver,
    open_systemd_driver,
    problem,
    systemd_problem,
)
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod

_DEADLINE: Seconds = 30.0
_UNMEASURED = NoMeter()


class PodCgroupManager:
    """Manages the cgroups of pods. `cgroups` None: they cannot be used, for the reason in `why_not`."""

    def __init__(
        self, *, cgroups: CgroupDriver | None, config: PodCgroupConfig, clock: Clock, why_not: str | None = None
    ) -> None:
        self.levels = QosLevels(cgroups=cgroups, config=config, clock=clock, why_not=why_not)
        self._config = config
        self._root = names.root_name(config.cgroup_root)
        self._applied: dict[PodUID, CgroupResources] = {}

    @property
    def policy(self) -> NodePolicy:
        """The policy for the resource settings of this node's pods."""
        return self._config.policy

    async def ensure_pod(self, pod: Pod, *, resizing: bool = False) -> str:
        """Create or update the pod's cgroup; return CRI's `cgroup_parent`, "" without a cgroup.

        While the pod is ``resizing``, an existing cgroup is not changed: the resize updates it in order with the
        containers.

        Raises Invalid for invalid quantities, Transient or Permanent if the kernel rejects a setting.
        """
        cgroups = self.levels.cgroups
        if cgroups is None:
            return ""
        uid = ref_of(pod).uid
        path = self._cgroup_path(pod)
        wanted = pod_config(pod, self._config.policy)
        fresh = self._applied.get(uid) != wanted and not resizing
        await blocking.call_to_end(_owner(uid), _ensure, cgroups, path, wanted, fresh, deadline=_DEADLINE)
        if not resizing:
            self._note_applied(pod, wanted)
        return self.pod_parent(pod)

    async def pod_limits(self, pod: Pod) -> CgroupResources | None:
        """Current CPU and memory limits of the pod's cgroup; None if it has none of its own. Raises base errors."""
        cgroups = self.levels.cgroups
        if cgroups is None:
            return None
        owner = _owner(ref_of(pod).uid)
        return await blocking.call(owner, cgroups.limits, self._cgroup_path(pod), deadline=_DEADLINE)

    def wanted_limits(self, pod: Pod) -> CgroupResources:
        """Limits of the pod's cgroup by its spec. Raises Invalid for invalid quantities."""
        return pod_limits_wanted(pod, self._config.policy)

    async def set_pod_limits(self, pod: Pod, limits: CgroupResources) -> None:
        """Write the limits that are not None to the pod's cgroup. Raises base errors."""
        cgroups = self.levels.cgroups
        if cgroups is not None:
            self._applied.pop(ref_of(pod).uid, None)
            await blocking.call_to_end(
                _owner(ref_of(pod).uid), cgroups.update, self._cgroup_path(pod), limits, deadline=_DEADLINE
            )

    def resized(self, pod: Pod) -> None:
        """Note that the pod's cgroup has all its limits by the spec."""
        if self.levels.cgroups is not None:
            self._note_applied(pod, pod_config(pod, self._config.policy))

    def _note_applied(self, pod: Pod, applied: CgroupResources) -> None:
        uid = ref_of(pod).uid
        self._applied[uid] = applied
        requests, qos = pod_requests(pod), pod_qos(pod)
        if qos is not QosClass.BEST_EFFORT:
            self.levels.note(uid, QosRequests(qos, requests.cpu, requests.memory))

    async def pod_memory(self, pod: Pod) -> Bytes | None:
        """Memory usage of the pod in bytes, with page cache; None without a cgroup. Raises base errors."""
        cgroups = self.levels.cgroups
        if cgroups is None:
            return None
        owner = _owner(ref_of(pod).uid)
        return (await blocking.call(owner, cgroups.stats, self._cgroup_path(pod), deadline=_DEADLINE)).memory_usage

    async def remove_pod(self, uid: PodUID) -> None:
        """Kill the processes in the pod's cgroup and remove it. Repeatable; raises Transient if something remains."""
        cgroups = self.levels.cgroups
        self._applied.pop(uid, None)
        self.levels.forget(uid)
        if cgroups is None:
            return
        # After a restart the QoS class is unknown, so the cgroups of all classes are removed.
        paths = [self._path(names.pod_name(self._root, qos, uid)) for qos in QosClass]
        await blocking.call_to_end(_owner(uid), _delete_all, cgroups, paths, deadline=_DEADLINE)

    async def list_pods(self) -> set[PodUID]:
        """List the pods that have a cgroup, also of an earlier agent, for housekeeping."""
        cgroups = self.levels.cgroups
        return await blocking.call("cgroups", self._list, cgroups, deadline=_DEADLINE) if cgroups else set()

    def pod_parent(self, pod: Pod) -> str:
        """CRI's `cgroup_parent` of a pod, "" if it has no cgroup of its own."""
        if self.levels.cgroups is None:
            return ""
        return names.cri_parent(self._name(pod), self._config.style)

    def pod_resources(self, pod: Pod) -> tuple[LinuxResources, LinuxResources | None]:
        """Sums over the pod's containers, and its overhead, for the sandbox."""
        policy = self._config.policy
        return sandbox_resources(pod, policy), overhead_resources(pod, policy)

    def container_resources(self, pod: Pod, container: Container | EphemeralContainer) -> LinuxResources:
        """Limits, weights and OOM score of a container."""
        return container_resources(pod, container, self._config.policy)

    def own_cgroup(self, pod: Pod) -> str | None:
        """Return the path of the pod's cgroup below the root of the hierarchy; None if pods get none of their own.

        Raises Invalid for an invalid uid.
        """
        return self._cgroup_path(pod) if self.pod_parent(pod) else None

    def _cgroup_path(self, pod: Pod) -> str:
        return self._path(self._name(pod))

    def _path(self, name: names.CgroupName) -> str:
        return names.to_path(name, self._config.style)

    def _name(self, pod: Pod) -> names.CgroupName:
        return names.pod_name(self._root, pod_qos(pod), ref_of(pod).uid)

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


def _ensure(cgroups: CgroupDriver, path: str, wanted: CgroupResources, fresh: bool) -> None:
    if fresh or not cgroups.exists(path):
        cgroups.create(path, wanted)


def _delete_all(cgroups: CgroupDriver, paths: list[str]) -> None:
    for path in paths:
        cgroups.delete(path)


def _owner(uid: PodUID) -> str:
    return f"pod/{uid}/cgroup"
