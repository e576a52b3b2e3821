"""A connection to a shim: calls over ttRPC, any number at a time."""

import asyncio
import errno
import logging
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.http.paced_protocol import PacedProtocol
from pykubelet.base.text import printable
from pykubelet.base.units import MIB, Seconds
from pykubelet.criserver.shim.ttrpc_frames import PIECE, REQUEST, RESPONSE, Frame, FrameReader
from pykubelet.pb import ttrpc_pb2

_log = logging.getLogger(__name__)
_M = TypeVar("_M", bound=Message)
_CONNECT: Final[Seconds] = 10.0
_MOST_UNSENT: Final = 16 * MIB
"""Bytes of requests that a shim has not read; one may have 4 MiB."""
_MOST_TEXT: Final = 2000
"""Characters of a shim's error message."""
_NO_LISTENER: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE))
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


class TtrpcConnection(PacedProtocol):
    """One connection, made by ``connect``. It needs no task: the event loop calls its methods."""

    def __init__(self, name: str) -> None:
        super().__init__(lambda: PIECE)
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
                if frame.kind != RESPONSE:
                    continue  # no call here has a stream of data
                waiting = self._waiting.pop(frame.stream, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(frame.message)
        except Permanent as error:
            _log.warning("shim disconnected: malformed message", extra={"shim": self._name, "error": str(error)})
            if self._transport is not None:
                self._transport.abort()  # to close it would wait until the shim has read all requests

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
        if self._transport.get_write_buffer_size() > _MOST_UNSENT:
            raise Transient(f"{self._name} does not read its requests")
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
        words = printable(response.status.message[:_MOST_TEXT]) or f"{method} failed"
        raise _ERRORS.get(response.status.code, Permanent)(words)


async def connect(path: str, name: str) -> TtrpcConnection:
    """Connect to a shim's socket. ``name`` is for errors.

    ShimGone: nothing listens there; Transient: too slow, or this process cannot connect now (no descriptors, …).
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT):
            transport, connection = await loop.create_unix_connection(lambda: TtrpcConnection(name), path)
    except TimeoutError as error:
        raise Transient(f"{name} does not accept connections at {path}") from error
    except OSError as error:
        if error.errno in _NO_LISTENER:
            raise ShimGone(f"{name} has ended: {path}: {error.strerror}") from error
        # What a shim that is gone has left is killed, so the server's own want of descriptors must not look like it.
        raise Transient(f"cannot connect to {name} at {path}: {error.strerror or error}") from error
    if transport.get_extra_info("peername") is None:
        # Its queue is full: asyncio takes EAGAIN for a connection in progress, which a unix socket does not have.
        transport.abort()
        raise Transient(f"{name} does not accept connections at {path}")
    return connection
