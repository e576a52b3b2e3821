"""The call of the gRPC health protocol (grpc.health.v1) for gRPC probes.

Its two messages have one field each and are encoded here by hand: generated ones would conflict in protobuf's global
pool with the health package of a program that embeds the agent.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pykubelet.base.http.http_get import is_ipv6
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.probe_types import ProbeObservation, ProbeVerdict

if TYPE_CHECKING:
    from grpc.aio import AioRpcError

_METHOD = "/grpc.health.v1.Health/Check"
_STATUS = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING = 1
_LONGEST_DETAILS = 1024
"""Maximum number of characters of the server's error details in an event."""


async def check(host: str, port: int, service: str, timeout: Seconds, user_agent: str) -> ProbeObservation:
    """Call Check for the service (empty: the server itself). Without TLS, since the API has no field for it."""
    import grpc

    address = f"[{host}]:{port}" if is_ipv6(host) else f"{host}:{port}"
    options = (
        ("grpc.primary_user_agent", user_agent),
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        # Each probe opens a connection of its own and closes it.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", 4096),
    )
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        try:
            call = channel.unary_unary(_METHOD, request_serializer=encode_request, response_deserializer=bytes)
            reply = await call(service, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            return ProbeObservation(ProbeVerdict.FAILURE, _failure(error, address, timeout))
    try:
        status = decode_status(reply)
    except ValueError:
        return ProbeObservation(ProbeVerdict.FAILURE, "error: health rpc probe failed: the answer is no health status")
    if status == _SERVING:
        return ProbeObservation(ProbeVerdict.SUCCESS)
    name = _STATUS[status] if status < len(_STATUS) else str(status)
    return ProbeObservation(ProbeVerdict.FAILURE, f'service unhealthy (responded with "{name}")')


def encode_request(service: str) -> bytes:
    """Encode a HealthCheckRequest: field 1, a string; omitted when empty."""
    data = service.encode()
    return b"\x0a" + _varint(len(data)) + data if data else b""


def decode_status(data: bytes) -> int:
    """Decode the status of a HealthCheckResponse: field 1, an enum, 0 if absent. ValueError: malformed message."""
    status = 0
    numbers = iter(data)
    for tag in _varints(numbers):
        match tag & 7:
            case 0:
                value = next(_varints(numbers), None)
                if value is None:
                    raise ValueError("truncated")
                status = value if tag >> 3 == 1 else status
            case 1:
                _skip(numbers, 8)
            case 2:
                _skip(numbers, next(_varints(numbers), -1))
            case 5:
                _skip(numbers, 4)
            case _:
                raise ValueError("unknown wire type")
    return status


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varints(numbers: Iterator[int]) -> Iterator[int]:
    """Yield the varints in the bytes, up to the end."""
    value = shift = 0
    for byte in numbers:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
        elif shift > 63:
            raise ValueError("a number is too long")
    if shift:
        raise ValueError("truncated")


def _skip(numbers: Iterator[int], count: int) -> None:
    if count < 0:
        raise ValueError("truncated")
    for _ in range(count):
        if next(numbers, None) is None:
            raise ValueError("truncated")


def _failure(error: "AioRpcError", address: str, timeout: Seconds) -> str:
    import grpc

    details = (error.details() or error.code().name)[:_LONGEST_DETAILS]
    match error.code():
        case grpc.StatusCode.UNIMPLEMENTED:
            protocol = "the grpc health protocol (grpc.health.v1.Health)"
            return f"error: this server does not implement {protocol}: {details}"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"timeout: health rpc did not complete within {timeout:g}s"
        case grpc.StatusCode.UNAVAILABLE:
            return f'error: failed to connect service at "{address}": {details}'
        case code:
            return f"error: health rpc probe failed: {code.name}: {details}"
