"""A connection to a shim: calls over ttRPC, any number at a time."""

import asyncio
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.criserver.shim.ttrpc_frames import REQUEST, RESPONSE, Frame, FrameReader
from pykubelet.pb import ttrpc_pb2

_M = TypeVar("_M", bound=Message)
_CONNECT: Final[Seconds] = 10.0
_ERRORS: Final[dict[int, type[PykubeletError]]] = {
    3: Invalid,
    4: Transient,
    5: NotFound,
    6: Conflict,
    12: Unsupported,
    14: Transient,
}
"""Errors by the code of gRPC; all others are Permanent."""


class ShimGone(Transient):
    """The shim has ended: it closed the connection, or nothing listens at its address."""


class TtrpcConnection(asyncio.Protocol):
    """One connection, made by ``connect``. It needs no task: the event loop calls its methods."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._last = -1

    @property
    def open(self) -> bool:
        """Whether calls can be made."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass responses to their calls; called by the event loop."""
        try:
            for frame in self._reader.feed(data):
                waiting = self._waiting.pop(frame.stream, None)
                if frame.kind == RESPONSE and waiting is not None and not waiting.done():
                    waiting.set_result(frame.message)
        except Permanent:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all calls in progress; called by the event loop."""
        waiting, self._waiting, self._transport = self._waiting, {}, None
        for each in waiting.values():
            if not each.done():
                each.set_exception(ShimGone(f"{self._name} has ended"))
                each.exception()  # a caller that was cancelled does not look

    def close(self) -> None:
        """Close the connection; calls in progress fail. Idempotent."""
        if self._transport is not None:
            self._transport.close()

    async def call(
        self, service: str, method: str, request: Message, reply: type[_M], *, namespace: str, timeout: Seconds | None
    ) -> _M:
        """Make a call. ShimGone; Transient after ``timeout`` seconds (None: no limit); else the shim's error."""
        if self._transport is None or self._transport.is_closing():
            raise ShimGone(f"{self._name} has ended")
        self._last += 2
        stream = self._last
        message = ttrpc_pb2.Request(
            service=service,
            method=method,
            payload=request.SerializeToString(),
            timeout_nano=int(timeout * 1e9) if timeout else 0,
            metadata=[ttrpc_pb2.KeyValue(key="containerd-namespace-ttrpc", value=namespace)],
        )
        data = Frame(stream, REQUEST, message.SerializeToString()).encode()
        waiting = self._waiting[stream] = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            async with asyncio.timeout(timeout):
                received = await waiting
        except TimeoutError as error:
            raise Transient(f"{self._name}: {method} did not end within {timeout:g} s") from error
        finally:
            self._waiting.pop(stream, None)
        return self._parsed(method, received, reply)

    def _parsed(self, method: str, received: bytes, reply: type[_M]) -> _M:
        try:
            response = ttrpc_pb2.Response.FromString(received)
            if response.status.code == 0:
                return reply.FromString(response.payload)
        except DecodeError as error:
            raise Permanent(f"{self._name}: {method}: the response is malformed") from error
        raise _ERRORS.get(response.status.code, Permanent)(response.status.message or f"{method} failed")


async def connect(path: str, name: str) -> TtrpcConnection:
    """Connect to a shim's socket. ``name`` is for errors. ShimGone: nothing listens there; Transient: too slow."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT):
            _, connection = await loop.create_unix_connection(lambda: TtrpcConnection(name), path)
    except TimeoutError as error:
        raise Transient(f"{name} does not accept connections at {path}") from error
    except OSError as error:
        raise ShimGone(f"{name} has ended: {path}: {error.strerror}") from error
    return connection
