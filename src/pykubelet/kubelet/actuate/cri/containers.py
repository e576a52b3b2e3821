"""CRI calls about containers and what runs in them."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.caller import Caller, bad_reply
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_IMAGE_VOLUME_FAILED: Final = "ImageVolumeMountFailed"
"""How runtimes begin the message when it was an image volume that kept the container from being made."""


class ContainerCalls(Caller):
    """Errors of all methods: `CriError` and what it derives from in `base.errors`."""

    async def create_container(
        self, sandbox: SandboxID, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerID:
        """Make a container, not yet started; gives its id. `sandbox_config` is what the sandbox was made with."""
        meta = sandbox_config.metadata
        pod = f"{meta.namespace}/{meta.name}"
        name = config.metadata.name
        target = f"{pod}/{name}"
        fields = {"pod": pod, "uid": meta.uid, "container": name, "attempt": config.metadata.attempt}
        _log.debug("creating container", extra=fields | {"image": config.image.image, "sandbox": sandbox})
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=sandbox_config)
        images = sum(mount.HasField("image") for mount in config.mounts)
        try:
            reply = await self._call_unbroken(calls.CREATE_CONTAINER, request, target)
        except CriError as error:
            self._tell_images(images, failed=_IMAGE_VOLUME_FAILED in error.details)
            raise
        self._tell_images(images, failed=False)
        if not reply.container_id:
            raise bad_reply(calls.CREATE_CONTAINER, target, "no container id")
        _log.debug("container created", extra=fields | {"id": reply.container_id})
        return ContainerID(reply.container_id)

    def _tell_images(self, number: int, *, failed: bool) -> None:
        if number:
            self._meter.image_volumes(number, failed)

    async def start_container(self, container: ContainerID) -> None:
        """Start a created container. After an error it may have ended with a status that says why."""
        await self._call_unbroken(calls.START_CONTAINER, pb.StartContainerRequest(container_id=container), container)

    async def stop_container(self, container: ContainerID, grace: Seconds) -> None:
        """Ask the container to end, kill it after `grace` (rounded up to whole seconds), return when it has ended.

        Succeeds when it has ended already; containerd 1.6 says `NotFound` when there is none.
        """
        timeout = math.ceil(grace)
        request = pb.StopContainerRequest(container_id=container, timeout=timeout)
        await self._call(calls.STOP_CONTAINER, request, container, extra=timeout)

    async def remove_container(self, container: ContainerID) -> None:
        """Remove the container, by force if it runs. Succeeds when it is gone already."""
        await self._call_unbroken(calls.REMOVE_CONTAINER, pb.RemoveContainerRequest(container_id=container), container)

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """The containers that match all of the filter; without one all there are."""
        parts = await self._parts(calls.STREAM_CONTAINERS, pb.StreamContainersRequest(filter=filter))
        if parts is not None:
            return [container for part in parts for container in part.containers]
        reply = await self._call(calls.LIST_CONTAINERS, pb.ListContainersRequest(filter=filter))
        return list(reply.containers)

    async def container_status(self, container: ContainerID, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        """The container in full; `NotFound` if there is none. `verbose` fills `info` with the runtime's own JSON."""
        request = pb.ContainerStatusRequest(container_id=container, verbose=verbose)
        reply = await self._call(calls.CONTAINER_STATUS, request, container)
        fault = container_fault(reply.status)
        if fault:
            raise bad_reply(calls.CONTAINER_STATUS, container, fault)
        return reply

    async def update_container_resources(
        self,
        container: ContainerID,
        resources: pb.LinuxContainerResources,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Change the cgroup settings of a container; settings that are 0 stay as they are."""
        request = pb.UpdateContainerResourcesRequest(container_id=container, linux=resources, annotations=annotations)
        await self._call(calls.UPDATE_CONTAINER_RESOURCES, request, container)

    async def reopen_container_log(self, container: ContainerID) -> None:
        """Make the runtime open the log file anew, after it was renamed; fails if the container does not run."""
        request = pb.ReopenContainerLogRequest(container_id=container)
        await self._call(calls.REOPEN_CONTAINER_LOG, request, container)

    async def checkpoint_container(self, container: ContainerID, location: str, timeout: Seconds) -> None:
        """Write a checkpoint archive to the file `location`. A `timeout` below the usual deadline is raised to it."""
        deadline = max(timeout, self._request_timeout)
        request = pb.CheckpointContainerRequest(container_id=container, location=location, timeout=math.ceil(deadline))
        extra = deadline - self._request_timeout
        await self._call(calls.CHECKPOINT_CONTAINER, request, container, extra=extra)

    async def exec_sync(
        self, container: ContainerID, command: Sequence[str], timeout: Seconds = 0.0
    ) -> pb.ExecSyncResponse:
        """Run a command in the container to its end; gives exit code, stdout and stderr.

        A command that outlasts `timeout` (rounded up to whole seconds; 0: none) is killed: `CriTimeout`.
        """
        seconds = math.ceil(timeout)
        request = pb.ExecSyncRequest(container_id=container, cmd=command, timeout=seconds)
        return await self._call(calls.EXEC_SYNC, request, container, extra=seconds or None)

    async def exec(self, request: pb.ExecRequest) -> str:
        """The URL of a streaming server that runs the command."""
        reply = await self._call(calls.EXEC, request, request.container_id)
        if not reply.url:
            raise bad_reply(calls.EXEC, request.container_id, "no URL")
        return reply.url

    async def attach(self, request: pb.AttachRequest) -> str:
        """The URL of a streaming server that is connected to the container's first process."""
        reply = await self._call(calls.ATTACH, request, request.container_id)
        if not reply.url:
            raise bad_reply(calls.ATTACH, request.container_id, "no URL")
        return reply.url


def container_fault(status: pb.ContainerStatus) -> str:
    """What a container status lacks of the fields every runtime must fill; empty if nothing."""
    if not status.id:
        return "no container id"
    if not status.metadata.name:
        return "no container name"
    if not status.created_at:
        return "no creation time"
    return "" if status.image.image and status.image_ref else "no image"
