"""Strings with a NUL are refused before a call begins, by the name of the field."""

from collections.abc import Callable

import grpc
import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.server.request_text import check_text, received
from pykubelet.pb import runtime_v1_pb2 as pb


def _request() -> pb.CreateContainerRequest:
    request = pb.CreateContainerRequest(pod_sandbox_id="s")
    request.config.metadata.name = "c"
    request.config.command.extend(("sh", "-c"))
    request.config.mounts.add(container_path="/a", host_path="/b")
    request.config.labels["empty"] = ""
    request.config.envs.add(key="K", value=b"v")
    request.config.linux.security_context.capabilities.SetInParent()
    return request


def _mount(request: pb.CreateContainerRequest) -> None:
    request.config.mounts.add(host_path="/x\0y")


def _device(request: pb.CreateContainerRequest) -> None:
    request.config.devices.add(host_path="\0")


def _command(request: pb.CreateContainerRequest) -> None:
    request.config.command.append("a\0")


def _label(request: pb.CreateContainerRequest) -> None:
    request.config.labels["k"] = "\0"


def _annotation(request: pb.CreateContainerRequest) -> None:
    request.sandbox_config.annotations["k\0"] = "v"


def _variable(request: pb.CreateContainerRequest) -> None:
    request.config.envs.add(key="A", value=b"\0")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_mount, r"config\.mounts\[1\]\.host_path"),
        (_device, r"config\.devices\[0\]\.host_path"),
        (_command, r"config\.command"),
        (_label, r"config\.labels\['k'\]"),
        (_annotation, r"sandbox_config\.annotations"),
        (_variable, r"config\.envs\[1\]\.value"),
    ],
)
def test_nul_is_refused_by_the_name_of_its_field(
    change: Callable[[pb.CreateContainerRequest], None], field: str
) -> None:
    request = _request()
    change(request)
    with pytest.raises(Invalid, match=rf"CreateContainerRequest: {field}.* contains a NUL character"):
        check_text(request)


def test_zero_bytes_outside_of_strings_are_no_nul() -> None:
    data = _request().SerializeToString()
    given = received(pb.CreateContainerRequest)(data)
    assert given.suspicious, "an empty value of a map has a length of 0"
    assert given.checked() == _request()


async def test_call_with_a_nul_is_refused_before_it_begins() -> None:
    async def serve(request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        begun.append(request)
        return pb.StopContainerResponse()

    begun: list[pb.StopContainerRequest] = []
    calls = Calls("runtime.v1.RuntimeService")
    calls.unary("StopContainer", pb.StopContainerRequest, serve)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((calls.handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stop = channel.unary_unary(
                "/runtime.v1.RuntimeService/StopContainer",
                pb.StopContainerRequest.SerializeToString,
                pb.StopContainerResponse.FromString,
            )
            with pytest.raises(grpc.aio.AioRpcError, match="container_id contains a NUL character") as refused:
                await stop(pb.StopContainerRequest(container_id="a\0b"))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            await stop(pb.StopContainerRequest(container_id="ab"))
    finally:
        await server.stop(None)
    assert [each.container_id for each in begun] == ["ab"]
