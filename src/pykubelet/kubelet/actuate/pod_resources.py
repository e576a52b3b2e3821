"""Pod resources: the cgroup, the directory, the volumes and the user namespace of a pod on this node.

The pod worker prepares cgroup, directory and volumes before the sandbox is created; volumes that lack only a token are
set up while it is created. The range of user ids is allocated with the sandbox
(``podruntime/start/create_sandbox.py``). All of them are released here after the last container has exited.
"""

import logging
from typing import Final

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import VolumeError
from pykubelet.kubelet.actuate.cgroups import PodCgroupManager
from pykubelet.kubelet.actuate.cluster_interfaces import ClusterInputs
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.actuate.podruntime import PodRuntime
from pykubelet.kubelet.actuate.userns import IdRangeManager
from pykubelet.kubelet.actuate.volumes import (
    VolumeContext,
    VolumeManager,
    failure_reason,
    only_shows_objects,
    referenced_objects,
)
from pykubelet.kubelet.actuate.volumes.volume_interfaces import ConfigReader
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.admission import REJECTIONS
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.outcome import Failure, PreparationResult, SyncAction
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import PodRuntimeStatus, RuntimePod
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_UNPREPARED: Final = "Failed to prepare dynamic resources"
"""Upstream's event."""
_NO_DRA: Final = "this node has no dynamic resource allocation; run the pod on a node that has it. Its claims"
_LIST_SECONDS: Final[Seconds] = 5.0


class PodResourcesDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of :class:`PodResources`."""

    resources: PodCgroupManager
    volumes: VolumeManager
    runtime: PodRuntime
    objects: ConfigReader
    node: NodeFacts
    users: IdRangeManager
    cluster: ClusterInputs | None
    """None without an API server."""
    telemetry: Telemetry[object]


class PodResources:
    """Prepares, releases and removes pod resources for pod workers, and lists pods that have any for housekeeping."""

    def __init__(self, deps: PodResourcesDeps) -> None:
        self._deps = deps
        self._prepared: set[PodUID] = set()

    async def prepare(self, pod: Pod, status: PodRuntimeStatus) -> PreparationResult:
        """Create or refresh the pod's cgroup, directory and volumes; returns the failures.

        Volumes of a new pod that only wait for a token are not set up here but by ``PreparationResult.rest``, so that
        the sandbox can be created meanwhile.
        """
        ref, timeline = ref_of(pod), self._deps.telemetry.timeline
        if claims := claimed_devices(pod):
            message = f"{_UNPREPARED}: {_NO_DRA}: {', '.join(claims)}"
            self._deps.telemetry.events.event(ref, WARNING, Reason.FAILED_PREPARE_DYNAMIC_RESOURCES, message)
            name = pod.metadata.name
            return PreparationResult(
                (Failure(SyncAction.PREPARE, name, Reason.FAILED_PREPARE_DYNAMIC_RESOURCES, message),)
            )
        first = ref.uid not in self._prepared
        try:
            if first:
                timeline.begin(ref.uid, Step.CGROUP)
            resizing = self._deps.runtime.allocations.progress(ref.uid) is not None
            await self._deps.resources.ensure_pod(pod, resizing=resizing)
            if first:
                timeline.end(ref.uid, Step.CGROUP)
        except PykubeletError as error:
            message = f"unable to ensure pod container exists: {error}"
            self._deps.telemetry.events.event(ref, WARNING, Reason.FAILED_TO_CREATE_POD_CONTAINER, message)
            return PreparationResult((_failure(pod, Reason.FAILED_TO_CREATE_POD_CONTAINER, error),))
        if first and not status.sandboxes and self._lacks_only_tokens(pod):
            return PreparationResult(rest=lambda: self._prepare_volumes(pod, status))
        return PreparationResult(await self._prepare_volumes(pod, status))

    async def _prepare_volumes(self, pod: Pod, status: PodRuntimeStatus) -> tuple[Failure, ...]:
        ref, timeline = ref_of(pod), self._deps.telemetry.timeline
        first = ref.uid not in self._prepared
        if first:
            timeline.begin(ref.uid, Step.VOLUMES)
        try:
            if self._deps.cluster is not None:
                await self._await_inputs(pod)
            await self._deps.volumes.mount(pod, self._context(status))
        except PykubeletError as error:
            reason = failure_reason(error, status)
            if reason not in REJECTIONS:
                self._deps.telemetry.events.event(ref, WARNING, reason, str(error))
            return (_failure(pod, reason, error),)
        if first:
            timeline.end(ref.uid, Step.VOLUMES)
            self._prepared.add(ref.uid)
        return ()

    def _lacks_only_tokens(self, pod: Pod) -> bool:
        """Whether the pod's volumes lack nothing but tokens.

        Otherwise the sandbox waits for the volumes, since the condition PodReadyToStartContainers covers both
        (KEP-3085).
        """
        if pod.spec.host_users is False or not only_shows_objects(pod):
            return False
        try:
            for kind, name in referenced_objects(pod):
                get = self._deps.objects.get_secret if kind == "Secret" else self._deps.objects.get_config_map
                get(ref_of(pod).namespace, name)
        except PykubeletError:
            return False
        return True

    async def release(self, uid: PodUID) -> None:
        """Unmount the volumes, remove the cgroup, free the user ids. Repeatable; raises Transient if one is in use."""
        self._prepared.discard(uid)
        await self._deps.volumes.unmount(uid)
        await self._deps.resources.remove_pod(uid)
        await self._deps.users.release(uid)

    async def forget(self, uid: PodUID) -> None:
        """Remove the pod's directory. Repeatable."""
        await self._deps.volumes.remove(uid)

    async def purge(self, uid: PodUID) -> None:
        """Release and remove everything of an orphan, which no source wants and the runtime does not have."""
        await self.release(uid)
        await self.forget(uid)

    async def runtime_pods(self) -> list[RuntimePod]:
        """List the pods of the runtime."""
        return await self._deps.runtime.list_pods()

    async def pods_before(self) -> set[PodUID]:
        """Find pods of an earlier agent by their directories; if these cannot be listed, by cgroups and containers."""
        found: set[PodUID] = set()
        for look in (self.pods_on_disk, self._deps.resources.list_pods, self._uids_in_runtime):
            try:
                found |= await look()
            except PykubeletError as error:
                _log.error("pods of an earlier agent not listed completely", extra={"error": str(error)})
            else:
                if look == self.pods_on_disk:
                    break  # all of them have a directory or a cgroup
        return found

    async def _uids_in_runtime(self) -> set[PodUID]:
        return {pod.uid for pod in await self.runtime_pods()}

    async def pods_on_disk(self) -> set[PodUID]:
        """List the pods that have a directory or a cgroup."""
        try:
            directories = await blocking.call("pods", self._deps.volumes.pods_on_disk, deadline=_LIST_SECONDS)
        except OSError as error:
            raise Transient(f"cannot list the pods' directories: {error}") from error
        return directories | await self._deps.resources.list_pods()

    async def _await_inputs(self, pod: Pod) -> None:
        assert self._deps.cluster is not None
        try:
            await self._deps.cluster.ready(pod)
        except PykubeletError as error:
            if ref_of(pod).uid in self._prepared:
                return  # the pod continues with the volume contents that it has
            raise VolumeError("", str(error)) from error

    def _context(self, status: PodRuntimeStatus) -> VolumeContext:
        node = self._deps.node
        downward = DownwardContext(
            node_name=node.name(), host_ips=node.ips(), pod_ips=status.ips, allocatable=node.allocatable()
        )
        return VolumeContext(config=self._deps.objects, downward=downward)


def claimed_devices(pod: Pod) -> tuple[str, ...]:
    """Return the pod's resource claims (KEP-4381), by the names in its spec, then that of its extended resources.

    Without dynamic resource allocation they cannot be prepared, and upstream starts no container without them.
    """
    own = tuple(claim.name for claim in pod.spec.resource_claims)
    extended = pod.status.extended_resource_claim_status
    return own if extended is None else (*own, extended.resource_claim_name)


def _failure(pod: Pod, reason: str, error: PykubeletError) -> Failure:
    return Failure(SyncAction.PREPARE, pod.metadata.name, reason, str(error))
