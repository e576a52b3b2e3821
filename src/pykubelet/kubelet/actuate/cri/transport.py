"""Transport of CRI and CSI calls: gRPC channels over a unix socket.

Tests replace `Transport`: the fake runtime also has one without gRPC, for tests in virtual time.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message
from msgspec import Struct

from pykubelet.base import tracing
from pykubelet.base.errors import Invalid
from pykubelet.base.units import MIB, Seconds

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

MAX_MESSAGE = 16 * MIB
"""Maximum size of a message in bytes; gRPC's default of 4 MiB is too small for the lists of a full node."""

_MAX_SOCKET_PATH = 107
"""Maximum length of a path in sockaddr_un (unix(7)), without the NUL."""

_MOST_CALLS = 512
"""Calls on one connection. A runtime limits them (this project's: 1024), and further ones would wait for those that
pods keep from ending: the commands of their probes, and stops of containers, last as long as their specs say."""

_CHANNEL_OPTIONS: tuple[tuple[str, str | int], ...] = (
    # The default authority would be the escaped path of the socket, which Go servers reject.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", MAX_MESSAGE),
    # A restarted runtime is found again within a second, since trying a unix socket costs next to nothing.
    # Calls fail at once meanwhile; the callers have their own back-off.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In spite of its name not a back-off, but the timeout of one handshake, which takes time on a busy machine.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A unix socket reports the death of its peer, so pings would only wake up both sides.
    ("grpc.keepalive_time_ms", 2**31 - 1),
    ("grpc.enable_http_proxy", 0),
    # Two clients of one process (tests) must not share their connection and its back-off.
    ("grpc.use_local_subchannel_pool", 1),
)


class _Method(Struct, frozen=True):
    service: str
    """Service with its package, as in `runtime.v1.RuntimeService`."""
    name: str
    operation: str
    """Value of the label `operation_type` of the metrics `kubelet_runtime_operations_*`."""

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


class UnaryCall(_Method, Generic[_Request, _Reply], frozen=True):
    """A call with one request and one reply."""

    request: type[_Request]
    reply: type[_Reply]


class StreamCall(_Method, Generic[_Request, _Reply], frozen=True):
    """A call with one request and a stream of replies."""

    request: type[_Request]
    reply: type[_Reply]
    metadata: tuple[tuple[str, str], ...] = ()


class Transport(Protocol):
    """Carries calls. Failures are `grpc.aio.AioRpcError`; cancelling the caller cancels the call."""

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None) -> _Reply:
        """Make a call; `timeout` None waits for ever."""
        ...

    def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: Seconds | None
    ) -> AsyncGenerator[_Reply, None]:
        """Make a call and yield its replies; `timeout` is for the whole stream."""
        ...

    async def close(self) -> None:
        """Cancel calls in progress and close the socket."""
        ...


class _Channel:
    """A connection, which the first call opens."""

    def __init__(self, socket: str) -> None:
        self.grpc = grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)
        self.calls = 0
        """Calls that have begun and not ended."""


class GrpcTransport:
    """Transport over gRPC. Create it inside the running loop; calls open as many connections as they need."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._channels: list[_Channel] = []

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None) -> _Reply:
        with self._channel() as channel:
            method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Reply] = channel.unary_unary(
                call.path, call.request.SerializeToString, call.reply.FromString
            )
            return await method(request, timeout=timeout, metadata=tuple(tracing.carrier().items()))

    async def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: Seconds | None
    ) -> AsyncGenerator[_Reply, None]:
        with self._channel() as channel:
            method: grpc.aio.UnaryStreamMultiCallable[_Request, _Reply] = channel.unary_stream(
                call.path, call.request.SerializeToString, call.reply.FromString
            )
            replies = method(request, timeout=timeout, metadata=call.metadata)
            try:
                async for reply in replies:
                    yield reply
            finally:
                replies.cancel()

    async def close(self) -> None:
        for channel in self._channels:
            await channel.grpc.close(None)

    @contextmanager
    def _channel(self) -> Iterator[grpc.aio.Channel]:
        """The first channel that has room for a call, for the time of the block. Idle ones close their connections."""
        found = next((each for each in self._channels if each.calls < _MOST_CALLS), None)
        if found is None:
            self._channels.append(found := _Channel(self._socket))
        found.calls += 1
        try:
            yield found.grpc
        finally:
            found.calls -= 1


def socket_path(endpoint: str) -> str:
    """Return the socket path of an endpoint, given as `unix:///PATH` or as the absolute path.

    Raises `Invalid` for anything else: CRI is served on unix sockets only.
    """
    path = endpoint.removeprefix("unix://")
    if not PurePosixPath(path).is_absolute():
        raise Invalid(
            f"container runtime endpoint {endpoint!r}: must be a unix socket, as in unix:///run/containerd/containerd.sock"
        )
    if len(path.encode()) > _MAX_SOCKET_PATH:
        raise Invalid(
            f"container runtime endpoint {endpoint!r}: the path is longer than {_MAX_SOCKET_PATH} bytes,"
            " which no unix socket can have; use a shorter directory"
        )
    return path
