"""CRI client: requests and converted replies; the transport is a table of replies."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import pytest
from google.protobuf.message import Message
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from pykubelet.base.errors import Conflict, NotFound, PykubeletError, Transient, Unsupported
from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.actuate.cri.errors import CriError, CriFailed
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.meter import RecordingMeter

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

SANDBOX = SandboxID("s1")
CONTAINER = ContainerID("c1")
POD = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="pod", namespace="ns", uid="u1"))
APP = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"))


def failure(code: StatusCode, details: str = "it broke") -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details, None)


@dataclass
class Table:
    """Answers with prepared replies or errors, else with an empty reply."""

    replies: dict[str, Message | list[Message] | AioRpcError] = field(default_factory=dict)
    requests: dict[str, Message] = field(default_factory=dict)
    timeouts: dict[str, float | None] = field(default_factory=dict)
    closed: bool = False

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: float | None) -> _Reply:
        self.requests[call.name] = request
        self.timeouts[call.name] = timeout
        reply = self.replies.get(call.name, call.reply())
        if isinstance(reply, AioRpcError):
            raise reply
        return cast("_Reply", reply)

    async def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: float | None
    ) -> AsyncGenerator[_Reply, None]:
        self.requests[call.name] = request
        self.timeouts[call.name] = timeout
        replies = self.replies.get(call.name, [])
        if isinstance(replies, AioRpcError):
            raise replies
        for reply in cast("list[_Reply]", replies):
            yield reply

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def client(table: Table) -> CriClient:
    return CriClient(table)


Call = Callable[[CriClient], Awaitable[object]]


@pytest.mark.parametrize(
    ("method", "call", "timeout"),
    [
        ("Version", lambda c: c.version(), 120),
        ("RunPodSandbox", lambda c: c.run_pod_sandbox(POD), 240),
        ("StopPodSandbox", lambda c: c.stop_pod_sandbox(SANDBOX), 120),
        ("StartContainer", lambda c: c.start_container(CONTAINER), 120),
        ("StopContainer", lambda c: c.stop_container(CONTAINER, 30), 150),
        ("StopContainer", lambda c: c.stop_container(CONTAINER, 0.5), 121),
        ("ExecSync", lambda c: c.exec_sync(CONTAINER, ["true"]), None),
        ("ExecSync", lambda c: c.exec_sync(CONTAINER, ["true"], 3), 123),
        ("PullImage", lambda c: c.pull_image(APP.image), None),
        ("CheckpointContainer", lambda c: c.checkpoint_container(CONTAINER, "/c.tar", 5), 120),
        ("CheckpointContainer", lambda c: c.checkpoint_container(CONTAINER, "/c.tar", 500), 500),
    ],
)
async def test_deadlines_are_those_of_the_go_kubelet(
    table: Table, client: CriClient, method: str, call: Call, timeout: float | None
) -> None:
    table.replies[method] = failure(StatusCode.UNKNOWN)
    with pytest.raises(CriError):
        await call(client)
    assert table.timeouts[method] == timeout


async def test_the_configured_timeout_is_used(table: Table) -> None:
    table.replies["RunPodSandbox"] = pb.RunPodSandboxResponse(pod_sandbox_id="s1")
    await CriClient(table, CriOptions(request_timeout=10)).run_pod_sandbox(POD)
    assert table.timeouts["RunPodSandbox"] == 20


@pytest.mark.parametrize(
    ("method", "reply", "call", "lacks"),
    [
        ("RunPodSandbox", pb.RunPodSandboxResponse(), lambda c: c.run_pod_sandbox(POD), "no sandbox id"),
        (
            "CreateContainer",
            pb.CreateContainerResponse(),
            lambda c: c.create_container(SANDBOX, APP, POD),
            "no container id",
        ),
        ("PullImage", pb.PullImageResponse(), lambda c: c.pull_image(APP.image), "no image reference"),
        (
            "ImageStatus",
            pb.ImageStatusResponse(image=pb.Image(id="i")),
            lambda c: c.image_status(APP.image),
            "no image id or size",
        ),
        ("Exec", pb.ExecResponse(), lambda c: c.exec(pb.ExecRequest()), "no URL"),
        ("Attach", pb.AttachResponse(), lambda c: c.attach(pb.AttachRequest()), "no URL"),
        ("PortForward", pb.PortForwardResponse(), lambda c: c.port_forward(SANDBOX, []), "no URL"),
        ("Version", pb.VersionResponse(version="0.1.0"), lambda c: c.version(), "empty name or version"),
        (
            "Status",
            pb.StatusResponse(status=pb.RuntimeStatus(conditions=[pb.RuntimeCondition(type="RuntimeReady")])),
            lambda c: c.status(),
            "NetworkReady",
        ),
    ],
)
async def test_reply_without_required_field_is_an_error(
    table: Table, client: CriClient, method: str, reply: Message, call: Call, lacks: str
) -> None:
    table.replies[method] = reply
    with pytest.raises(CriFailed, match=lacks):
        await call(client)


META = POD.metadata


async def test_sandboxes_and_image_volumes_are_measured(table: Table) -> None:
    meter = RecordingMeter()
    client = CriClient(table, CriOptions(meter=meter))
    table.replies["RunPodSandbox"] = pb.RunPodSandboxResponse(pod_sandbox_id="s1")
    await client.run_pod_sandbox(POD, "kata")
    table.replies["RunPodSandbox"] = failure(StatusCode.UNKNOWN)
    with pytest.raises(CriError):
        await client.run_pod_sandbox(POD)
    mounts = [pb.Mount(container_path="/i", image=pb.ImageSpec(image="data:1")), pb.Mount(host_path="/h")]
    with_image = pb.ContainerConfig(metadata=APP.metadata, image=APP.image, mounts=mounts)
    table.replies["CreateContainer"] = pb.CreateContainerResponse(container_id="c1")
    await client.create_container(SANDBOX, APP, POD)
    await client.create_container(SANDBOX, with_image, POD)
    table.replies["CreateContainer"] = failure(StatusCode.UNKNOWN, "ImageVolumeMountFailed: no such layer")
    with pytest.raises(CriError):
        await client.create_container(SANDBOX, with_image, POD)
    assert meter.lines == ["sandbox kata done", "sandbox - failed", "images 1 done", "images 1 failed"]


async def test_sandbox_status_is_requested_by_id_and_verbosity(table: Table, client: CriClient) -> None:
    status = pb.PodSandboxStatus(id="s1", metadata=META, created_at=1)
    table.replies["PodSandboxStatus"] = pb.PodSandboxStatusResponse(status=status, info={"a": "b"})
    reply = await client.pod_sandbox_status(SANDBOX, verbose=True)
    assert (reply.status.id, dict(reply.info)) == ("s1", {"a": "b"})
    assert table.requests["PodSandboxStatus"] == pb.PodSandboxStatusRequest(pod_sandbox_id="s1", verbose=True)


@pytest.mark.parametrize(
    "status",
    [
        pb.PodSandboxStatus(metadata=META, created_at=1),
        pb.PodSandboxStatus(id="s1", created_at=1),
        pb.PodSandboxStatus(id="s1", metadata=pb.PodSandboxMetadata(name="a", namespace="b"), created_at=1),
        pb.PodSandboxStatus(id="s1", metadata=META),
    ],
)
async def test_sandbox_status_without_a_required_field(
    table: Table, client: CriClient, status: pb.PodSandboxStatus
) -> None:
    table.replies["PodSandboxStatus"] = pb.PodSandboxStatusResponse(status=status)
    with pytest.raises(CriFailed, match="PodSandboxStatus s1: the runtime's reply has no"):
        await client.pod_sandbox_status(SANDBOX)


async def test_container_status_is_requested_by_id_and_verbosity(table: Table, client: CriClient) -> None:
    status = pb.ContainerStatus(id="c1", metadata=APP.metadata, created_at=1, image=APP.image, image_ref="i")
    table.replies["ContainerStatus"] = pb.ContainerStatusResponse(status=status, info={"a": "b"})
    reply = await client.container_status(CONTAINER, verbose=True)
    assert (reply.status.id, dict(reply.info)) == ("c1", {"a": "b"})
    assert table.requests["ContainerStatus"] == pb.ContainerStatusRequest(container_id="c1", verbose=True)


@pytest.mark.parametrize(
    "status",
    [
        pb.ContainerStatus(metadata=APP.metadata, created_at=1, image=APP.image, image_ref="i"),
        pb.ContainerStatus(id="c1", created_at=1, image=APP.image, image_ref="i"),
        pb.ContainerStatus(id="c1", metadata=APP.metadata, image=APP.image, image_ref="i"),
        pb.ContainerStatus(id="c1", metadata=APP.metadata, created_at=1, image_ref="i"),
        pb.ContainerStatus(id="c1", metadata=APP.metadata, created_at=1, image=APP.image),
    ],
)
async def test_container_status_without_a_required_field(
    table: Table, client: CriClient, status: pb.ContainerStatus
) -> None:
    table.replies["ContainerStatus"] = pb.ContainerStatusResponse(status=status)
    with pytest.raises(CriFailed, match="ContainerStatus c1: the runtime's reply has no"):
        await client.container_status(CONTAINER)


async def test_image_status_of_missing_image_is_none(table: Table, client: CriClient) -> None:
    assert await client.image_status(APP.image) is None


async def test_the_library_error_is_the_cause(table: Table, client: CriClient) -> None:
    cause = failure(StatusCode.NOT_FOUND, "gone")
    table.replies["StopContainer"] = cause
    with pytest.raises(NotFound, match=r"StopContainer c1: gone \(NOT_FOUND\)") as caught:
        await client.stop_container(CONTAINER, 1)
    assert caught.value.__cause__ is cause


async def test_errors_of_creations_name_the_pod_and_container(table: Table, client: CriClient) -> None:
    table.replies["CreateContainer"] = failure(StatusCode.ALREADY_EXISTS)
    with pytest.raises(Conflict, match="CreateContainer ns/pod/app"):
        await client.create_container(SANDBOX, APP, POD)


async def test_requests_are_complete(table: Table, client: CriClient) -> None:
    resources = pb.LinuxContainerResources(cpu_shares=2)
    await client.update_container_resources(CONTAINER, resources, {"a": "b"})
    await client.update_pod_sandbox_resources(SANDBOX, None, resources)
    await client.stop_container(CONTAINER, 0.2)
    await client.exec_sync(CONTAINER, ["a", "b"], 1.5)
    await client.update_runtime_config("10.0.0.0/24")
    await client.checkpoint_container(CONTAINER, "/c.tar", 3)
    assert table.requests == {
        "UpdateContainerResources": pb.UpdateContainerResourcesRequest(
            container_id="c1", linux=resources, annotations={"a": "b"}
        ),
        "UpdatePodSandboxResources": pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id="s1", resources=resources),
        "StopContainer": pb.StopContainerRequest(container_id="c1", timeout=1),
        "ExecSync": pb.ExecSyncRequest(container_id="c1", cmd=["a", "b"], timeout=2),
        "UpdateRuntimeConfig": pb.UpdateRuntimeConfigRequest(
            runtime_config=pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr="10.0.0.0/24"))
        ),
        "CheckpointContainer": pb.CheckpointContainerRequest(container_id="c1", location="/c.tar", timeout=120),
    }


LISTS: list[tuple[str, str, Message, Message, Call]] = [
    (
        "ListPodSandbox",
        "StreamPodSandboxes",
        pb.ListPodSandboxResponse(items=[pb.PodSandbox(id="a"), pb.PodSandbox(id="b")]),
        pb.StreamPodSandboxesResponse(pod_sandboxes=[pb.PodSandbox(id="a")]),
        lambda c: c.list_pod_sandboxes(),
    ),
    (
        "ListContainers",
        "StreamContainers",
        pb.ListContainersResponse(containers=[pb.Container(id="a"), pb.Container(id="b")]),
        pb.StreamContainersResponse(containers=[pb.Container(id="a")]),
        lambda c: c.list_containers(),
    ),
    (
        "ListContainerStats",
        "StreamContainerStats",
        pb.ListContainerStatsResponse(stats=[pb.ContainerStats(), pb.ContainerStats()]),
        pb.StreamContainerStatsResponse(container_stats=[pb.ContainerStats()]),
        lambda c: c.list_container_stats(),
    ),
    (
        "ListPodSandboxStats",
        "StreamPodSandboxStats",
        pb.ListPodSandboxStatsResponse(stats=[pb.PodSandboxStats(), pb.PodSandboxStats()]),
        pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=[pb.PodSandboxStats()]),
        lambda c: c.list_pod_sandbox_stats(),
    ),
    (
        "ListPodSandboxMetrics",
        "StreamPodSandboxMetrics",
        pb.ListPodSandboxMetricsResponse(pod_metrics=[pb.PodSandboxMetrics(), pb.PodSandboxMetrics()]),
        pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=[pb.PodSandboxMetrics()]),
        lambda c: c.list_pod_sandbox_metrics(),
    ),
    (
        "ListImages",
        "StreamImages",
        pb.ListImagesResponse(images=[pb.Image(id="a"), pb.Image(id="b")]),
        pb.StreamImagesResponse(images=[pb.Image(id="a")]),
        lambda c: c.list_images(),
    ),
]


@pytest.mark.parametrize(("plain", "streamed", "whole", "part", "call"), LISTS)
async def test_streamed_list_has_the_items_of_all_parts(
    table: Table, plain: str, streamed: str, whole: Message, part: Message, call: Call
) -> None:
    table.replies = {plain: whole, streamed: [part, part, part]}
    in_one_piece = await call(CriClient(table))
    in_parts = await call(CriClient(table, CriOptions(list_streaming=True)))
    assert isinstance(in_one_piece, list)
    assert isinstance(in_parts, list)
    assert (len(in_one_piece), len(in_parts)) == (2, 3)


@pytest.mark.parametrize(("plain", "streamed", "whole", "part", "call"), LISTS)
async def test_a_runtime_without_streamed_lists_is_asked_once(
    table: Table, plain: str, streamed: str, whole: Message, part: Message, call: Call
) -> None:
    table.replies = {plain: whole, streamed: failure(StatusCode.UNIMPLEMENTED)}
    client = CriClient(table, CriOptions(list_streaming=True))
    first = await call(client)
    table.requests.clear()
    second = await call(client)
    assert isinstance(first, list)
    assert first == second
    assert list(table.requests) == [plain]


async def test_a_broken_streamed_list_is_an_error(table: Table) -> None:
    table.replies["StreamContainers"] = failure(StatusCode.UNAVAILABLE)
    with pytest.raises(Transient):
        await CriClient(table, CriOptions(list_streaming=True)).list_containers()


async def test_events_have_no_deadline(table: Table, client: CriClient) -> None:
    table.replies["GetContainerEvents"] = [pb.ContainerEventResponse(container_id="c1")]
    assert [event.container_id async for event in client.get_container_events()] == ["c1"]
    assert table.timeouts["GetContainerEvents"] is None


async def test_events_may_be_unsupported(table: Table, client: CriClient) -> None:
    table.replies["GetContainerEvents"] = failure(StatusCode.UNIMPLEMENTED)
    with pytest.raises(Unsupported):
        await anext(client.get_container_events())


class _SlowTable(Table):
    """Takes a second for each call."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: float | None) -> _Reply:
        await self.clock.advance(1)
        return await super().unary(call, request, timeout)


async def test_calls_are_observed() -> None:
    seen: list[tuple[str, float, bool]] = []
    clock = VirtualClock()
    table = _SlowTable(clock)
    table.replies["StopPodSandbox"] = failure(StatusCode.UNKNOWN)
    options = CriOptions(observe=lambda *call: seen.append(call), clock=clock)
    client = CriClient(table, options)
    await client.remove_container(CONTAINER)
    with pytest.raises(PykubeletError):
        await client.stop_pod_sandbox(SANDBOX)
    _ = [event async for event in client.get_container_events()]
    assert seen == [
        ("remove_container", 1.0, False),
        ("stop_podsandbox", 1.0, True),
        ("get_container_events", 0.0, False),
    ]


async def test_leaving_the_context_closes_the_transport(table: Table) -> None:
    async with CriClient(table):
        assert not table.closed
    assert table.closed


@pytest.mark.parametrize(("request_timeout", "expected"), [(120.0, 10.0), (4.0, 4.0)])
async def test_status_call_has_a_short_deadline(request_timeout: float, expected: float) -> None:
    conditions = [pb.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
    table = Table({"Status": pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))})
    await CriClient(table, CriOptions(request_timeout=request_timeout)).status()
    assert table.timeouts["Status"] == expected
