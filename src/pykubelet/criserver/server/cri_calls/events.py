"""GetContainerEvents: the stream of container events."""

from collections.abc import AsyncIterator

from pykubelet.base.errors import NotFound
from pykubelet.criserver.container import ContainerComponents
from pykubelet.criserver.event_hub import EventHub, EventKind
from pykubelet.criserver.sandbox import SandboxComponents
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.server.view import container_status, sandbox_status
from pykubelet.pb import runtime_v1_pb2 as pb

_KINDS = {
    EventKind.CREATED: pb.CONTAINER_CREATED_EVENT,
    EventKind.STARTED: pb.CONTAINER_STARTED_EVENT,
    EventKind.STOPPED: pb.CONTAINER_STOPPED_EVENT,
    EventKind.DELETED: pb.CONTAINER_DELETED_EVENT,
}


class EventCalls:
    """The call GetContainerEvents."""

    def __init__(self, *, hub: EventHub, sandboxes: SandboxComponents, containers: ContainerComponents) -> None:
        self._hub = hub
        self._sandboxes = sandboxes
        self._containers = containers

    def register(self, calls: Calls) -> None:
        """Register the call."""
        calls.stream("GetContainerEvents", pb.GetEventsRequest, self.events)

    async def events(self, request: pb.GetEventsRequest) -> AsyncIterator[pb.ContainerEventResponse]:
        """Stream events from now on, each with the status of its pod."""
        async for event in self._hub.subscribe():
            reply = pb.ContainerEventResponse(
                container_id=event.id, container_event_type=_KINDS[event.kind], created_at=event.at
            )
            try:
                sandbox = self._sandboxes.table.get(event.sandbox)
                reply.pod_sandbox_status.CopyFrom(sandbox_status(sandbox))
                reply.containers_statuses.extend(
                    container_status(each) for each in self._containers.table.of_sandbox(sandbox.id) if each.visible
                )
            except NotFound:
                pass  # the sandbox was removed; the event is sent without its status
            yield reply
