"""Calls about containers and the commands in them."""

import json
from collections.abc import AsyncIterator, Iterable

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container import Container, ContainerComponents
from pykubelet.criserver.sandbox import SandboxComponents
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.server.call_table import Calls, chunks
from pykubelet.criserver.server.completion import run_to_completion
from pykubelet.criserver.server.creations import Creations
from pykubelet.criserver.server.lists import container_filter, container_list
from pykubelet.criserver.server.view import as_asked, container_status
from pykubelet.criserver.types import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb


class ContainerCalls:
    """From CreateContainer to RemoveContainer, and ExecSync."""

    def __init__(self, *, containers: ContainerComponents, sandboxes: SandboxComponents, scope: ServerScope) -> None:
        self._containers = containers
        self._sandboxes = sandboxes
        self._tasks = scope.tasks
        self._creations: Creations[ContainerID] = Creations(scope.tasks)

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("CreateContainer", pb.CreateContainerRequest, self.create)
        calls.unary("StartContainer", pb.StartContainerRequest, run_to_completion(self._tasks, self.start))
        calls.unary("StopContainer", pb.StopContainerRequest, run_to_completion(self._tasks, self.stop))
        calls.unary("RemoveContainer", pb.RemoveContainerRequest, run_to_completion(self._tasks, self.remove))
        calls.unary("ListContainers", pb.ListContainersRequest, self.listed)
        calls.stream("StreamContainers", pb.StreamContainersRequest, self.stream)
        calls.unary("ContainerStatus", pb.ContainerStatusRequest, self.status)
        update = run_to_completion(self._tasks, self.update)
        calls.unary("UpdateContainerResources", pb.UpdateContainerResourcesRequest, update)
        calls.unary("ReopenContainerLog", pb.ReopenContainerLogRequest, self.reopen_log)
        calls.unary("CheckpointContainer", pb.CheckpointContainerRequest, self.checkpoint)
        calls.unary("ExecSync", pb.ExecSyncRequest, self.exec_sync)

    async def create(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        """Create a container; a retry of the same request gets the first one."""
        if not request.HasField("config"):
            raise Invalid("CreateContainer needs a config")
        sandbox = self._sandboxes.table.get(request.pod_sandbox_id).id
        metadata = request.config.metadata
        name = f"{sandbox}/{metadata.name}/{metadata.attempt}"
        content = request.SerializeToString(deterministic=True)
        made = await self._creations.run(
            name, content, lambda: self._containers.lifecycle.creator.create(sandbox, request.config)
        )
        return pb.CreateContainerResponse(container_id=made)

    async def start(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        """Start a container."""
        await self._containers.lifecycle.starter.start(request.container_id)
        return pb.StartContainerResponse()

    async def stop(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        """Stop a container; no error if it does not exist."""
        await self._containers.lifecycle.stopper.stop(request.container_id, float(max(0, request.timeout)))
        return pb.StopContainerResponse()

    async def remove(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        """Remove a container; no error if it does not exist."""
        await self._containers.lifecycle.remover.remove(request.container_id)
        return pb.RemoveContainerResponse()

    async def listed(self, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
        """List the containers that match a filter."""
        return self._found(request.filter)

    async def stream(self, request: pb.StreamContainersRequest) -> AsyncIterator[pb.StreamContainersResponse]:
        """Stream the list of containers in chunks."""
        for piece in chunks(self._found(request.filter).containers):
            yield pb.StreamContainersResponse(containers=piece)

    async def status(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        """Return the status of a container; ``verbose``: with details and the OCI spec as JSON."""
        container = self._containers.table.get(request.container_id)
        info = {}
        if request.verbose:
            info["info"] = json.dumps(
                _details(container) | {"runtimeSpec": await self._containers.commands.spec(container)}
            )
        return pb.ContainerStatusResponse(status=container_status(container), info=info)

    async def update(self, request: pb.UpdateContainerResourcesRequest) -> pb.UpdateContainerResourcesResponse:
        """Change the resource limits of a container."""
        await self._containers.updater.update(request.container_id, request.linux)
        return pb.UpdateContainerResourcesResponse()

    async def reopen_log(self, request: pb.ReopenContainerLogRequest) -> pb.ReopenContainerLogResponse:
        """Reopen a container's log after a rotation."""
        await self._containers.log.reopen(request.container_id)
        return pb.ReopenContainerLogResponse()

    async def checkpoint(self, request: pb.CheckpointContainerRequest) -> pb.CheckpointContainerResponse:
        """Write the state of a running container to an archive."""
        status = container_status(self._containers.table.get(request.container_id))
        await self._containers.checkpoints.checkpointer.checkpoint(
            request.container_id, request.location, float(max(0, request.timeout)), json.dumps(as_asked(status))
        )
        return pb.CheckpointContainerResponse()

    async def exec_sync(self, request: pb.ExecSyncRequest) -> pb.ExecSyncResponse:
        """Run a command in a container and return its output."""
        if not request.cmd:
            raise Invalid("ExecSync needs a command")
        result = await self._containers.commands.execute(
            request.container_id, list(request.cmd), float(max(0, request.timeout))
        )
        return pb.ExecSyncResponse(stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code)

    def _found(self, wanted: pb.ContainerFilter) -> pb.ListContainersResponse:
        known: Iterable[Container] = self._containers.table.visible()
        if wanted.ByteSize():  # most lists are of all
            known = filter(container_filter(wanted), known)
        return container_list(known)


def _details(container: Container) -> dict[str, object]:
    record = container.record
    return {
        "sandboxID": record.sandbox_id,
        "pid": record.process.pid if record.process else 0,
        "monitor": record.monitor.pid if record.monitor else 0,
        "cgroup": record.cgroup,
        "phase": record.phase.value,
        "config": as_asked(container.config),
    }
