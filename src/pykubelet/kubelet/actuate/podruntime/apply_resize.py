"""Applies an in-place resize to the pod's cgroup and its running containers (KEP-1287).

Every step is recorded, so after an interruption the next sync continues from the allocation store and the cgroup.
"""

import logging
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri.errors import CriError, CriUnsupported
from pykubelet.kubelet.actuate.cri_messages.resources import resources_message
from pykubelet.kubelet.actuate.podruntime.allocation_store import AllocationStore
from pykubelet.kubelet.actuate.podruntime.plan.resize import (
    PodStep,
    ResizePlan,
    SizeChange,
    pod_memory_falls,
    pod_steps,
)
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Cri, Resources
from pykubelet.kubelet.actuate.podruntime.runtime_errors import error_message
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import SandboxID, ref_of
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.kubelet.types.resources.resize import Allocation, resize_summary, sized
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupResources
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_NOT_IMPLEMENTED: Final = "not implemented"
"""Message of containerd 2.2 for a call that it does not have; its code is unspecific."""


class ResizeError(PykubeletError):
    """A resize could not be applied, or only partly."""


class ResizerDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `Resizer`."""

    cri: Cri
    resources: Resources
    allocations: AllocationStore
    telemetry: Telemetry[WorkMeter]


class Resizer:
    """Resizes pods, in a sync after containers were stopped and before others are started."""

    def __init__(self, deps: ResizerDeps) -> None:
        self._deps = deps
        self._allocations = deps.allocations

    async def apply(self, pod: Pod, sandbox: SandboxID, plan: ResizePlan) -> None:
        """Resize the pod's cgroup and its running containers. Repeatable; raises ResizeError."""
        ref = ref_of(pod)
        begun, done = self._deps.telemetry.clock.monotonic(), False
        try:
            await self._apply(pod, sandbox, plan)
            done = True
        except PykubeletError as error:
            message = error_message(error)
            if self._allocations.note_error(ref.uid, message):
                progress = self._allocations.progress(ref.uid)
                generation = progress.generation if progress is not None else None
                text = f"Pod resize error: {resize_summary(pod, generation, message)}"
                self._deps.telemetry.events.event(ref, WARNING, Reason.RESIZE_ERROR, text)
            raise ResizeError(message) from error
        finally:
            self._deps.telemetry.metrics.pod_resized(self._deps.telemetry.clock.monotonic() - begun, failed=not done)

    async def complete(self, pod: Pod, allocation: Allocation) -> None:
        """Complete the resize: all containers have their allocated size. Sends an event; raises Transient."""
        ref = ref_of(pod)
        if not self._allocations.complete(ref.uid, allocation):
            return
        self._deps.resources.resized(pod)
        await self._allocations.save(ref.uid)
        text = f"Pod resize completed: {resize_summary(pod, allocation.generation)}"
        self._deps.telemetry.events.event(ref, NORMAL, Reason.RESIZE_COMPLETED, text)

    async def _apply(self, pod: Pod, sandbox: SandboxID, plan: ResizePlan) -> None:
        resources = self._deps.resources
        now, wanted = await resources.pod_limits(pod), resources.wanted_limits(pod)
        if now is None:
            now = wanted
        await self._refuse_below_usage(pod, sandbox, plan, now, wanted)
        await self._tell_runtime(pod, sandbox)
        memory = {PodStep.LIMIT: CgroupResources(memory_max=wanted.memory_max)}
        for step in pod_steps(now.memory_max, wanted.memory_max, 0, 0):
            if step is PodStep.CONTAINERS:
                await self._update(pod, plan.memory, memory=True)
            else:
                await resources.set_pod_limits(pod, memory[step])
        if (wanted.memory_min, wanted.memory_low) != (None, None):
            protected = CgroupResources(memory_min=wanted.memory_min, memory_low=wanted.memory_low)
            await resources.set_pod_limits(pod, protected)
        cpu = {
            PodStep.LIMIT: CgroupResources(cpu_quota_us=wanted.cpu_quota_us, cpu_period_us=wanted.cpu_period_us),
            PodStep.REQUEST: CgroupResources(cpu_shares=wanted.cpu_shares),
        }
        shares = now.cpu_shares or 0, wanted.cpu_shares or 0
        for step in pod_steps(now.cpu_quota_us, wanted.cpu_quota_us, *shares):
            if step is PodStep.CONTAINERS:
                await self._update(pod, plan.cpu, memory=False)
            else:
                await resources.set_pod_limits(pod, cpu[step])

    async def _update(self, pod: Pod, changes: tuple[SizeChange, ...], *, memory: bool) -> None:
        uid = ref_of(pod).uid
        for change in changes:
            name = change.container.name
            now = self._allocations.applied(uid).get(name, change.now)
            size = _mixed(change.wanted, now) if memory else _mixed(now, change.wanted)
            message = resources_message(self._deps.resources.container_resources(pod, sized(change.container, size)))
            _remove_limits(message, now, size)
            await self._deps.cri.update_container_resources(change.id, message)
            self._allocations.note_applied(uid, name, size)
            await self._allocations.save(uid)

    async def _tell_runtime(self, pod: Pod, sandbox: SandboxID) -> None:
        """Send the sandbox's new resources to the runtime, which may reject them; older runtimes lack the call."""
        sums, overhead = self._deps.resources.pod_resources(pod)
        try:
            await self._deps.cri.update_pod_sandbox_resources(
                sandbox, resources_message(overhead) if overhead else None, resources_message(sums)
            )
        except CriError as error:
            if not isinstance(error, CriUnsupported) and _NOT_IMPLEMENTED not in error.details:
                raise
            _log.debug("runtime does not support UpdatePodSandboxResources", extra={"pod": str(ref_of(pod))})

    async def _refuse_below_usage(
        self, pod: Pod, sandbox: SandboxID, plan: ResizePlan, now: CgroupResources, wanted: CgroupResources
    ) -> None:
        """Raise ResizeError for a memory limit below the current usage, which would OOM-kill a process."""
        falling = {c.container.name: c.wanted.memory_limit for c in plan.memory if c.memory_limit_falls}
        faults = []
        if pod_memory_falls(now, wanted) and wanted.memory_max is not None:
            used = await self._deps.resources.pod_memory(pod) or 0
            if used >= wanted.memory_max:
                faults.append(f"attempting to set pod memory limit ({wanted.memory_max}) below current usage ({used})")
        filter = pb.ContainerStatsFilter(pod_sandbox_id=sandbox)
        for stats in await self._deps.cri.list_container_stats(filter) if falling else ():
            name, uses = stats.attributes.metadata.name, stats.memory.usage_bytes.value
            if name in falling and uses >= falling[name]:
                what = f'container "{name}" memory limit ({falling[name]})'
                faults.append(f"attempting to set {what} below current usage ({uses})")
        if faults:
            raise ResizeError(f"cannot decrease memory limits: {_listed(faults)}")


def _mixed(memory: Size, cpu: Size) -> Size:
    """Combine the memory of one size with the CPU of another."""
    return replace(cpu, memory_request=memory.memory_request, memory_limit=memory.memory_limit)


def _remove_limits(message: pb.LinuxContainerResources, now: Size, wanted: Size) -> None:
    """Set removed limits to unlimited in the message, since zero means unchanged."""
    if now.cpu_limit and not wanted.cpu_limit:
        message.cpu_quota = UNLIMITED
    if now.memory_limit and not wanted.memory_limit:
        message.memory_limit_in_bytes = UNLIMITED


def _listed(faults: list[str]) -> str:
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
