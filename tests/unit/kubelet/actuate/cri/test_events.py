"""Runtime events from each kind of stream, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from google.protobuf.message import Message
from grpc import StatusCode

from pykubelet.base.errors import Transient, Unsupported
from pykubelet.kubelet.actuate.cri import CriClient, RuntimeEvents
from pykubelet.kubelet.actuate.cri.containerd_events import decode
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb.containerd_events_pb2 import TaskExit, TaskOOM, TaskStart
from pykubelet.pb.containerd_events_service_pb2 import Envelope
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri, FakeCriOptions, Fault, Script

POD = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="pod", namespace="ns", uid="u1"))
APP = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"))

CONTAINERD = FakeCriOptions(supports_events=False, containerd_events=True, exit_lag=0.1)


@dataclass
class WatchedRuntime:
    """A runtime, a watch on its events, and what the watch has delivered."""

    cri: FakeCri
    client: CriClient
    clock: VirtualClock
    watch: "asyncio.Task[None]"
    events: list[RuntimeEvent] = field(default_factory=list)

    async def start_container(self) -> ContainerID:
        self.cri.add_image("app:1")
        sandbox = await self.client.run_pod_sandbox(POD)
        container = await self.client.create_container(sandbox, APP, POD)
        await self.client.start_container(container)
        await self.clock.settle()
        return container

    def about(self, container: str) -> list[RuntimeEventKind]:
        return [event.kind for event in self.events if event.container_id == container]


@asynccontextmanager
async def watched(options: FakeCriOptions) -> AsyncIterator[WatchedRuntime]:
    clock = VirtualClock()
    async with FakeCri(clock, options) as cri:
        events: list[RuntimeEvent] = []
        client = cri.client()
        watch = asyncio.ensure_future(RuntimeEvents(client, clock).watch(events.append))
        await clock.settle()
        try:
            yield WatchedRuntime(cri, client, clock, watch, events)
        finally:
            watch.cancel()
            await asyncio.wait({watch})


async def test_cri_events_of_a_container_arrive_in_order() -> None:
    async with watched(FakeCriOptions()) as runtime:
        container = await runtime.start_container()
        await runtime.client.stop_container(container, 1)
        await runtime.client.remove_container(container)
        await runtime.clock.settle()
        assert runtime.about(container) == ["created", "started", "stopped", "deleted"]
        assert runtime.about(runtime.cri.sandboxes[0].id) == ["created", "started"]
        assert {event.pod_uid for event in runtime.events} == {PodUID("u1")}
        assert {event.time for event in runtime.events} == {runtime.clock.now()}


async def test_containerd_events_are_used_without_cri_events() -> None:
    async with watched(CONTAINERD) as runtime:
        container = await runtime.start_container()
        assert runtime.about(container) == ["started"]
        assert runtime.events[0].pod_uid is None
        assert runtime.events[0].time == runtime.clock.now()


async def test_containerd_exit_is_delivered_when_cri_shows_it() -> None:
    async with watched(CONTAINERD) as runtime:
        runtime.cri.script(Script(exit_after=1))
        container = await runtime.start_container()
        await runtime.clock.advance(1.09)
        assert runtime.about(container) == ["started"]
        await runtime.clock.advance(0.06)
        assert runtime.about(container) == ["started", "stopped"]
        assert (await runtime.client.container_status(container)).status.state == pb.CONTAINER_EXITED


async def test_containerd_exit_is_delivered_after_5_s_in_any_case() -> None:
    options = FakeCriOptions(supports_events=False, containerd_events=True, exit_lag=60)
    async with watched(options) as runtime:
        runtime.cri.script(Script(exit_after=1))
        container = await runtime.start_container()
        await runtime.clock.advance(5.9)
        assert runtime.about(container) == ["started"]
        await runtime.clock.advance(0.4)
        assert runtime.about(container) == ["started", "stopped"]


async def test_containerd_exit_of_a_removed_container_and_of_a_sandbox() -> None:
    async with watched(CONTAINERD) as runtime:
        container = await runtime.start_container()
        sandbox = runtime.cri.sandboxes[0]
        await runtime.client.remove_container(container)
        runtime.cri.end_sandbox(sandbox)
        await runtime.clock.advance(0.1)
        assert runtime.about(container) == ["started", "stopped"]
        assert runtime.about(sandbox.id) == ["stopped"]


async def test_containerd_exit_waits_while_the_runtime_is_not_responding() -> None:
    async with watched(CONTAINERD) as runtime:
        container = await runtime.start_container()
        down = runtime.cri.inject(Fault("ContainerStatus", code=StatusCode.UNAVAILABLE))
        runtime.cri.end_container(runtime.cri.containers[0])
        await runtime.clock.advance(1)
        assert runtime.about(container) == ["started"]
        runtime.cri.remove_fault(down)
        await runtime.clock.advance(1)
        assert runtime.about(container) == ["started", "stopped"]


async def test_a_slow_confirmation_does_not_hold_up_others() -> None:
    async with watched(CONTAINERD) as runtime:
        first = await runtime.start_container()
        hang = runtime.cri.inject(Fault("ContainerStatus", target="ns/pod/app", hang=True))
        runtime.cri.end_container(runtime.cri.containers[0])
        await runtime.clock.advance(1)
        runtime.cri.end_sandbox(runtime.cri.sandboxes[0])
        await runtime.clock.advance(1)
        assert runtime.about(runtime.cri.sandboxes[0].id) == ["stopped"]
        assert runtime.about(first) == ["started"]
        runtime.cri.remove_fault(hang)
        await runtime.clock.advance(1)
        assert runtime.about(first) == ["started", "stopped"]


async def test_runtime_without_events_raises_unsupported() -> None:
    async with watched(FakeCriOptions(supports_events=False)) as runtime:
        with pytest.raises(Unsupported):
            await runtime.watch


@pytest.mark.parametrize("options", [FakeCriOptions(), CONTAINERD])
async def test_broken_event_stream_raises_transient(options: FakeCriOptions) -> None:
    async with watched(options) as runtime:
        container = await runtime.start_container()
        runtime.cri.end_container(runtime.cri.containers[0])
        runtime.cri.drop_event_streams()
        with pytest.raises(Transient):
            await runtime.watch
        assert runtime.cri.listeners == 0
        assert container


async def test_an_error_in_the_receiver_is_not_hidden() -> None:
    def deliver(event: RuntimeEvent) -> None:
        raise ZeroDivisionError

    clock = VirtualClock()
    async with FakeCri(clock, CONTAINERD) as cri:
        watch = asyncio.ensure_future(RuntimeEvents(cri.client(), clock).watch(deliver))
        await clock.settle()
        cri.add_image("app:1")
        client = cri.client()
        sandbox = await client.run_pod_sandbox(POD)
        await client.start_container(await client.create_container(sandbox, APP, POD))
        with pytest.raises(ZeroDivisionError):
            await watch


def _envelope(event: Message, namespace: str = "k8s.io") -> Envelope:
    envelope = Envelope(namespace=namespace)
    envelope.timestamp.FromNanoseconds(1_500_000_000)
    envelope.event.type_url = event.DESCRIPTOR.full_name
    envelope.event.value = event.SerializeToString()
    return envelope


@pytest.mark.parametrize(
    ("envelope", "kind"),
    [
        (_envelope(TaskStart(container_id="c", pid=1)), RuntimeEventKind.STARTED),
        (_envelope(TaskExit(container_id="c", id="c", exit_status=1)), RuntimeEventKind.STOPPED),
        (_envelope(TaskOOM(container_id="c")), RuntimeEventKind.OOM),
        (_envelope(TaskExit(container_id="c", id="exec-1")), None),
        (_envelope(TaskStart(container_id="c"), namespace="moby"), None),
        (_envelope(pb.VersionRequest(version="1")), None),
    ],
)
def test_containerd_event_is_decoded_by_its_type(envelope: Envelope, kind: RuntimeEventKind | None) -> None:
    event = decode(envelope)
    assert (event.kind if event else None) == kind
    if event:
        assert (event.container_id, event.time) == ("c", 1.5)


def test_a_containerd_envelope_with_rubbish_in_it_is_ignored() -> None:
    envelope = _envelope(TaskStart(container_id="c"))
    envelope.event.value = b"\xff\xff\xff"
    assert decode(envelope) is None
