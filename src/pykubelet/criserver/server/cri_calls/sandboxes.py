"""Calls about pod sandboxes."""

import json
from collections.abc import AsyncIterator, Iterable

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container import ContainerComponents
from pykubelet.criserver.sandbox import Sandbox, SandboxComponents
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.server.call_table import Calls, chunks
from pykubelet.criserver.server.completion import run_to_completion
from pykubelet.criserver.server.creations import Creations
from pykubelet.criserver.server.lists import sandbox_filter, sandbox_list
from pykubelet.criserver.server.view import as_asked, container_status, sandbox_status
from pykubelet.criserver.types import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb


class SandboxCalls:
    """From RunPodSandbox to RemovePodSandbox."""

    def __init__(self, *, sandboxes: SandboxComponents, containers: ContainerComponents, scope: ServerScope) -> None:
        self._sandboxes = sandboxes
        self._containers = containers
        self._tasks = scope.tasks
        self._clock = scope.clock
        self._creations: Creations[SandboxID] = Creations(scope.tasks)

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.unary("RunPodSandbox", pb.RunPodSandboxRequest, self.run)
        calls.unary("StopPodSandbox", pb.StopPodSandboxRequest, run_to_completion(self._tasks, self.stop))
        calls.unary("RemovePodSandbox", pb.RemovePodSandboxRequest, run_to_completion(self._tasks, self.remove))
        calls.unary("PodSandboxStatus", pb.PodSandboxStatusRequest, self.status)
        calls.unary("ListPodSandbox", pb.ListPodSandboxRequest, self.listed)
        calls.stream("StreamPodSandboxes", pb.StreamPodSandboxesRequest, self.stream)
        update = run_to_completion(self._tasks, self.update)
        calls.unary("UpdatePodSandboxResources", pb.UpdatePodSandboxResourcesRequest, update)

    async def run(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        """Create and start a sandbox; a retry of the same request gets the first one."""
        if not request.HasField("config"):
            raise Invalid("RunPodSandbox needs a config")
        metadata = request.config.metadata
        name = f"{metadata.namespace}/{metadata.name}/{metadata.uid}/{metadata.attempt}"
        content = request.SerializeToString(deterministic=True)
        made = await self._creations.run(
            name, content, lambda: self._sandboxes.runner.run(request.config, request.runtime_handler)
        )
        return pb.RunPodSandboxResponse(pod_sandbox_id=made)

    async def stop(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        """Stop a sandbox; no error if it does not exist."""
        await self._sandboxes.stopper.stop(request.pod_sandbox_id)
        return pb.StopPodSandboxResponse()

    async def remove(self, request: pb.RemovePodSandboxRequest) -> pb.RemovePodSandboxResponse:
        """Remove a sandbox; no error if it does not exist."""
        await self._sandboxes.remover.remove(request.pod_sandbox_id)
        return pb.RemovePodSandboxResponse()

    async def update(self, request: pb.UpdatePodSandboxResourcesRequest) -> pb.UpdatePodSandboxResourcesResponse:
        """Record a pod's new resources."""
        await self._sandboxes.updater.update(request.pod_sandbox_id, request.overhead, request.resources)
        return pb.UpdatePodSandboxResourcesResponse()

    async def status(self, request: pb.PodSandboxStatusRequest) -> pb.PodSandboxStatusResponse:
        """Return the status of a sandbox and of its containers; ``verbose``: with details as JSON."""
        sandbox = self._sandboxes.table.get(request.pod_sandbox_id)
        info = {}
        if request.verbose:
            netns = str(self._sandboxes.layout.netns(sandbox) or "")
            facts = {
                "phase": sandbox.record.phase.value,
                "handler": sandbox.record.handler,
                "name": sandbox.record.name,
                "pid": sandbox.record.infra.pid if sandbox.record.infra else 0,
                "netns": netns,
                "networkProblem": await self._sandboxes.attachments.problem(sandbox),
                "config": as_asked(sandbox.config),
                # Where containerd and CRI-O report it, too.
                "runtimeSpec": {"linux": {"namespaces": [{"type": "network", "path": netns}] if netns else []}},
            }
            info["info"] = json.dumps(facts)
        return pb.PodSandboxStatusResponse(
            status=sandbox_status(sandbox),
            info=info,
            containers_statuses=[
                container_status(each) for each in self._containers.table.of_sandbox(sandbox.id) if each.visible
            ],
            timestamp=int(self._clock.now() * 1e9),
        )

    async def listed(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        """List the sandboxes that match a filter."""
        return self._found(request.filter)

    async def stream(self, request: pb.StreamPodSandboxesRequest) -> AsyncIterator[pb.StreamPodSandboxesResponse]:
        """Stream the list of sandboxes in chunks."""
        for piece in chunks(self._found(request.filter).items):
            yield pb.StreamPodSandboxesResponse(pod_sandboxes=piece)

    def _found(self, wanted: pb.PodSandboxFilter) -> pb.ListPodSandboxResponse:
        known: Iterable[Sandbox] = self._sandboxes.table.visible()
        if wanted.ByteSize():  # most lists are of all
            known = filter(sandbox_filter(wanted), known)
        return sandbox_list(known)
