"""containerd's native event stream: exit events on containerd 1.6, which has no CRI events.

The stream is served on the CRI socket. Its events are about tasks (processes), a layer below CRI: when it reports the
exit of a container's first process, CRI still reports "running" until the shim is cleaned up, for about 40 ms on an
idle machine. So an exit event is delivered when CRI shows the exit, and the next status is reliable.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri.client import CriClient
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.actuate.cri.transport import StreamCall
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb.containerd_events_pb2 import TaskExit, TaskOOM, TaskStart
from pykubelet.pb.containerd_events_service_pb2 import Envelope, SubscribeRequest

NAMESPACE = "k8s.io"
"""The containerd namespace of the CRI plugin."""

SUBSCRIBE = StreamCall(
    "containerd.services.events.v1.Events",
    "Subscribe",
    "get_container_events",
    SubscribeRequest,
    Envelope,
    metadata=(("containerd-namespace", NAMESPACE),),
)

_TOPICS = ("/tasks/start", "/tasks/exit", "/tasks/oom")

_FIRST_DELAY: Seconds = 0.02
_DELAY_FACTOR = 1.3
_MAX_DELAY: Seconds = 0.2
_CONFIRM_TIMEOUT: Seconds = 5.0


async def watch_containerd(client: CriClient, deliver: Callable[[RuntimeEvent], None], clock: Clock) -> None:
    """Call `deliver` for every start, exit and OOM of a container or sandbox until the stream ends.

    Raises `Unsupported` if the server is not containerd; other errors are those of `CriClient`.
    """
    request = SubscribeRequest(filters=[f'namespace=={NAMESPACE},topic=="{topic}"' for topic in _TOPICS])
    try:
        async with asyncio.TaskGroup() as confirmations, aclosing(client.stream(SUBSCRIBE, request)) as envelopes:
            async for envelope in envelopes:
                event = decode(envelope)
                if event is None:
                    continue
                if event.kind is RuntimeEventKind.STOPPED:
                    confirmations.create_task(
                        _deliver_exit(client, deliver, event, clock), name=f"confirm exit {event.container_id}"
                    )
                else:
                    deliver(event)
    except ExceptionGroup as group:
        # The stream has failed, which cancels the confirmations; the caller's relist covers their events.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def decode(envelope: Envelope) -> RuntimeEvent | None:
    """Decode an event; None if it is not about a container (end of an exec, other types)."""
    if envelope.namespace != NAMESPACE:
        return None
    try:
        found = _decode_task(envelope.event)
    except DecodeError:
        return None
    if found is None:
        return None
    container_id, kind = found
    return RuntimeEvent(container_id, kind, envelope.timestamp.ToNanoseconds() / 1e9)


def _decode_task(event: AnyMessage) -> tuple[str, RuntimeEventKind] | None:
    # The URL is the bare type name here, without the host that protobuf's own `Any.Is` expects.
    match event.type_url.rpartition("/")[2]:
        case "containerd.events.TaskExit":
            task = TaskExit.FromString(event.value)
            return (task.container_id, RuntimeEventKind.STOPPED) if task.id == task.container_id else None
        case "containerd.events.TaskStart":
            return TaskStart.FromString(event.value).container_id, RuntimeEventKind.STARTED
        case "containerd.events.TaskOOM":
            return TaskOOM.FromString(event.value).container_id, RuntimeEventKind.OOM
        case _:
            return None


async def _deliver_exit(
    client: CriClient, deliver: Callable[[RuntimeEvent], None], event: RuntimeEvent, clock: Clock
) -> None:
    """Deliver an exit event when CRI shows the exit, or after 5 s in any case."""
    deadline = clock.monotonic() + _CONFIRM_TIMEOUT
    pause = _FIRST_DELAY
    while clock.monotonic() < deadline:
        await clock.sleep(pause)
        if not await _is_running(client, event.container_id):
            break
        pause = min(pause * _DELAY_FACTOR, _MAX_DELAY)
    deliver(event)


async def _is_running(client: CriClient, container_id: str) -> bool:
    """Whether CRI shows this container, or sandbox, as running; true after an error."""
    try:
        reply = await client.container_status(ContainerID(container_id))
        return reply.status.state in (pb.CONTAINER_RUNNING, pb.CONTAINER_CREATED)
    except NotFound:
        pass
    except CriError:
        return True
    try:
        sandbox = await client.pod_sandbox_status(SandboxID(container_id))
        return sandbox.status.state == pb.SANDBOX_READY
    except NotFound:
        return False
    except CriError:
        return True
