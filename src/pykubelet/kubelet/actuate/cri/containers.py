"""CRI calls about containers: life cycle, status, logs, exec and attach."""

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
"""Prefix of runtimes' error messages for a failed image volume."""


class ContainerCalls(Caller):
    """Container calls of `CriClient`. All methods raise `CriError` and its base classes in `base.errors`."""

    async def create_container(
        self, sandbox: SandboxID, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerID:
        """Create a container without starting it; return its id. `sandbox_config` is the sandbox's configuration."""
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
            self._count_image_volumes(images, failed=_IMAGE_VOLUME_FAILED in error.details)
            raise
        self._count_image_volumes(images, failed=False)
        if not reply.container_id:
            raise bad_reply(calls.CREATE_CONTAINER, target, "no container id")
        _log.debug("container created", extra=fields | {"id": reply.container_id})
        return ContainerID(reply.container_id)

    def _count_image_volumes(self, number: int, *, failed: bool) -> None:
        if number:
            self._meter.image_volumes(number, failed)

    async def start_container(self, container: ContainerID) -> None:
        """Start a created container. After an error it may have exited with a status that has the reason."""
        await self._call_unbroken(calls.START_CONTAINER, pb.StartContainerRequest(container_id=container), container)

    async def stop_container(self, container: ContainerID, grace: Seconds) -> None:
        """Stop the container; kill it after `grace` (rounded up to whole seconds). Return when it has exited.

        Succeeds if it has exited already; containerd 1.6 raises `NotFound` if it does not exist.
        """
        timeout = math.ceil(grace)
        request = pb.StopContainerRequest(container_id=container, timeout=timeout)
        await self._call(calls.STOP_CONTAINER, request, container, extra=timeout)

    async def remove_container(self, container: ContainerID) -> None:
        """Remove the container, by force if it runs. Succeeds if it does not exist."""
        await self._call_unbroken(calls.REMOVE_CONTAINER, pb.RemoveContainerRequest(container_id=container), container)

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """List the containers that match the filter; all without a filter."""
        parts = await self._parts(calls.STREAM_CONTAINERS, pb.StreamContainersRequest(filter=filter))
        if parts is not None:
            return [container for part in parts for container in part.containers]
        reply = await self._call(calls.LIST_CONTAINERS, pb.ListContainersRequest(filter=filter))
        return list(reply.containers)

    async def container_status(self, container: ContainerID, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        """Read the container's status. Raises `NotFound`. `verbose` fills `info` with runtime-specific JSON."""
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
        """Update the cgroup settings of a container; settings that are 0 are not changed."""
        request = pb.UpdateContainerResourcesRequest(container_id=container, linux=resources, annotations=annotations)
        await self._call(calls.UPDATE_CONTAINER_RESOURCES, request, container)

    async def reopen_container_log(self, container: ContainerID) -> None:
        """Make the runtime reopen the log file after it was renamed; fails if the container does not run."""
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
        """Run a command in the container to completion; return exit code, stdout and stderr.

        A command that exceeds `timeout` (rounded up to whole seconds; 0: none) is killed. Raises `CriTimeout`.
        """
        seconds = math.ceil(timeout)
        request = pb.ExecSyncRequest(container_id=container, cmd=command, timeout=seconds)
        return await self._call(calls.EXEC_SYNC, request, container, extra=seconds or None)

    async def exec(self, request: pb.ExecRequest) -> str:
        """Prepare an exec stream; return the URL of the streaming server."""
        reply = await self._call(calls.EXEC, request, request.container_id)
        if not reply.url:
            raise bad_reply(calls.EXEC, request.container_id, "no URL")
        return reply.url

    async def attach(self, request: pb.AttachRequest) -> str:
        """Prepare an attach stream; return the URL of the streaming server."""
        reply = await self._call(calls.ATTACH, request, request.container_id)
        if not reply.url:
            raise bad_reply(calls.ATTACH, request.container_id, "no URL")
        return reply.url


def container_fault(status: pb.ContainerStatus) -> str:
    """Describe the required field that a container status lacks; empty if it is complete."""
    if not status.id:
        return "no container id"
    if not status.metadata.name:
        return "no container name"
    if not status.created_at:
        return "no creation time"
    return "" if status.image.image and status.image_ref else "no image"
