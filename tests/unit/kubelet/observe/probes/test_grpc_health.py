"""The gRPC health check against a real server, and its hand-made messages."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.observe.probes.grpc_health import check, decode_status, encode_request
from pykubelet.kubelet.observe.probes.probe_types import ProbeObservation, ProbeVerdict
from tests.unit.base.http.http_server import answer, closed_port, http_server

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler = Callable[[bytes, Context], Awaitable[bytes]]


@asynccontextmanager
async def server(check_handler: Handler | None) -> AsyncIterator[int]:
    """A gRPC server with the health service, or without any."""
    served = grpc.aio.server()
    if check_handler is not None:
        method = grpc.unary_unary_rpc_method_handler(check_handler)
        handlers = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": method})
        served.add_generic_rpc_handlers((handlers,))
    port = served.add_insecure_port("127.0.0.1:0")
    await served.start()
    try:
        yield port
    finally:
        await served.stop(None)


async def ask(port: int, service: str = "", timeout: float = 5.0) -> ProbeObservation:
    return await check("127.0.0.1", port, service, timeout, "kube-probe/1.36")


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        (b"\x08\x01", ProbeObservation(ProbeVerdict.SUCCESS)),
        (b"\x08\x02", ProbeObservation(ProbeVerdict.FAILURE, 'service unhealthy (responded with "NOT_SERVING")')),
        (b"", ProbeObservation(ProbeVerdict.FAILURE, 'service unhealthy (responded with "UNKNOWN")')),
        (b"\x08\x09", ProbeObservation(ProbeVerdict.FAILURE, 'service unhealthy (responded with "9")')),
        (
            b"\xff",
            ProbeObservation(ProbeVerdict.FAILURE, "error: health rpc probe failed: the answer is no health status"),
        ),
    ],
)
async def test_answer_of_the_health_service_decides_the_probe(reply: bytes, seen: ProbeObservation) -> None:
    async def handle(_: bytes, __: Context) -> bytes:
        return reply

    async with server(handle) as port:
        assert await ask(port) == seen


async def test_request_names_service_and_user_agent() -> None:
    asked: list[tuple[bytes, str]] = []

    async def handle(request: bytes, context: Context) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        asked.append((request, str(metadata["user-agent"])))
        return b"\x08\x01"

    async with server(handle) as port:
        await ask(port, "my.Service")
        await ask(port)
    assert [each[0] for each in asked] == [b"\x0a\x0amy.Service", b""]
    assert asked[0][1].startswith("kube-probe/1.36 ")


async def test_a_service_that_is_not_known() -> None:
    async def handle(_: bytes, context: Context) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")

    async with server(handle) as port:
        seen = await ask(port, "nope")
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, "error: health rpc probe failed: NOT_FOUND: unknown service")


async def test_server_without_the_health_service_fails_the_probe() -> None:
    async with server(None) as port:
        seen = await ask(port)
    assert seen.verdict is ProbeVerdict.FAILURE
    assert seen.message.startswith("error: this server does not implement the grpc health protocol (grpc.health.v1.")


async def test_health_service_without_an_answer_times_out() -> None:
    async def handle(_: bytes, __: Context) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with server(handle) as port:
        seen = await ask(port, timeout=0.2)
    assert seen == ProbeObservation(ProbeVerdict.FAILURE, "timeout: health rpc did not complete within 0.2s")


async def test_closed_port_is_a_failure() -> None:
    port = closed_port()
    seen = await ask(port)
    assert seen.verdict is ProbeVerdict.FAILURE
    assert seen.message.startswith(f'error: failed to connect service at "127.0.0.1:{port}": ')


async def test_a_server_that_does_not_speak_grpc() -> None:
    async with http_server(lambda _: answer()) as plain:
        assert (await ask(plain.port, timeout=1)).verdict is ProbeVerdict.FAILURE


@given(st.text(max_size=300))
def test_the_request_is_a_protobuf_message(service: str) -> None:
    """The same bytes as those of a message with a string as its only field, of which protobuf has one at hand."""
    from google.protobuf.wrappers_pb2 import StringValue

    assert encode_request(service) == StringValue(value=service).SerializeToString()


@given(st.integers(0, 2**31 - 1))
def test_the_answer_is_a_protobuf_message(status: int) -> None:
    from google.protobuf.wrappers_pb2 import UInt32Value

    assert decode_status(UInt32Value(value=status).SerializeToString()) == status


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x12\x02ab\x08\x01", 1),
        (b"\x08\x01\x11" + b"\0" * 8 + b"\x1d" + b"\0" * 4 + b"\x20\x05", 1),
        (b"\x08\x02\x08\x01", 1),
    ],
)
def test_unknown_fields_are_skipped(data: bytes, status: int) -> None:
    assert decode_status(data) == status


@pytest.mark.parametrize("data", [b"\x08", b"\x80", b"\x12\x05ab", b"\x12", b"\x0b", b"\x11\0", b"\x08" + b"\xff" * 11])
def test_malformed_health_message_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|unknown|too long"):
        decode_status(data)


@given(st.binary(max_size=40))
def test_any_bytes_end_in_a_number_or_a_value_error(data: bytes) -> None:
    try:
        assert decode_status(data) >= 0
    except ValueError:
        pass
