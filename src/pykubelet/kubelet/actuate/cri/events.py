"""Runtime events, from CRI's GetContainerEvents or containerd's native stream.

containerd before 1.7 has only its native stream. A runtime with neither raises `Unsupported`, and PLEG relists more
often. The consumer is ``observe/pleg``.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeAlias

from grpc import StatusCode

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Unsupported
from pykubelet.kubelet.actuate.cri.client import CriClient
from pykubelet.kubelet.actuate.cri.containerd_events import watch_containerd
from pykubelet.kubelet.actuate.cri.errors import cri_error
from pykubelet.kubelet.actuate.cri.plan.conversion import seen_pod
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

Deliver: TypeAlias = Callable[[RuntimeEvent], None]

_KINDS: dict[int, RuntimeEventKind] = {
    pb.CONTAINER_CREATED_EVENT: RuntimeEventKind.CREATED,
    pb.CONTAINER_STARTED_EVENT: RuntimeEventKind.STARTED,
    pb.CONTAINER_STOPPED_EVENT: RuntimeEventKind.STOPPED,
    pb.CONTAINER_DELETED_EVENT: RuntimeEventKind.DELETED,
}


class RuntimeEvents:
    """Source of runtime events for PLEG."""

    def __init__(self, client: CriClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._guard = Guard("runtime.events", clock.monotonic)

    async def watch(self, deliver: Deliver) -> None:
        """Call `deliver` for each event from now on; always ends with an error.

        Raises `Unsupported`, within milliseconds, if the runtime has no events, `Transient` if the stream broke: the
        caller then watches again and relists, because events in between are lost.
        """
        try:
            await self._watch_cri(deliver)
        except Unsupported:
            _log.debug("runtime does not support CRI events: trying containerd's event stream")
            await watch_containerd(self._client, deliver, self._clock)
        raise cri_error(StatusCode.UNAVAILABLE, "GetContainerEvents", "", "the runtime ended its event stream")

    async def _watch_cri(self, deliver: Deliver) -> None:
        async with aclosing(self._client.get_container_events()) as events:
            async for event in events:
                kind = _KINDS.get(event.container_event_type)
                if kind is not None:
                    with self._guard.item(event.container_id):
                        deliver(_from_cri(event, kind))


def _from_cri(event: pb.ContainerEventResponse, kind: RuntimeEventKind) -> RuntimeEvent:
    uid = event.pod_sandbox_status.metadata.uid
    seen = seen_pod(event.pod_sandbox_status, event.containers_statuses)
    return RuntimeEvent(event.container_id, kind, event.created_at / 1e9, PodUID(uid) if uid else None, seen)
