"""Accepts connections within limits of number and time, with TLS by the current certificate.

aiohttp takes over a connection after the handshake. Its own time limit applies between requests only, so the time until
the first request is limited here: clients that send nothing, or a header byte a minute, are closed.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError
from pykubelet.base.http.paced_reads import PacedReads
from pykubelet.base.units import KIB, Seconds
from pykubelet.kubelet.serve.common.connections import CloseReason, ConnectionRecord, Connections, source_of
from pykubelet.kubelet.serve.common.limits import ConnectionLimits

_log = logging.getLogger(__name__)
_SHUTDOWN: Final[Seconds] = 5.0
_PAUSE: Final[Seconds] = 1.0
_PIECE: Final = 2 * KIB
_PIECE_OF_TRUSTED: Final = 16 * KIB
"""Bytes that are parsed of a connection before the event loop runs other tasks."""
Tls: TypeAlias = Callable[[], Awaitable[ssl.SSLContext]]
_OF_ONE_CONNECTION: Final = frozenset(
    {
        *(errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN),
        *(errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT),
    }
)
"""Errors of accept(2) that concern only the connection being accepted; the next one may succeed."""


class Listener:
    """Accepts connections until cancelled. ``tls`` provides the context for each connection; None: no TLS.

    ``closed`` is called for each connection closed or rejected to keep the limits.
    """

    def __init__(
        self, *, limits: ConnectionLimits, clock: Clock, tls: Tls | None, closed: Callable[[CloseReason], None]
    ) -> None:
        self._server: web.Server | None = None
        self._limits = limits
        self._clock = clock
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        """The context of the latest connection."""
        self._connections = Connections(limits, closed)
        self._by_handler: dict[RequestHandler, ConnectionRecord] = {}
        self._request_timers: dict[ConnectionRecord, asyncio.TimerHandle] = {}
        self._guard = Guard("server.connections", clock.monotonic)

    @property
    def connections(self) -> int:
        """Number of connections, including those in their handshake."""
        self._forget_ended()
        return len(self._connections)

    @contextmanager
    def serving(self, request: web.BaseRequest, *, trusted: bool) -> Iterator[None]:
        """Mark the connection as busy within the block. ``trusted``: serving a request makes it trusted."""
        record = self._by_handler.get(request.protocol)
        if record is None:
            yield
            return
        self._stop_request_timer(record)
        record.trusted |= trusted
        self._connections.begin(record)
        try:
            yield
        finally:
            self._connections.end(record)

    def mark_trusted(self, request: web.BaseRequest) -> None:
        """Mark the request's connection as trusted: its client has access."""
        record = self._by_handler.get(request.protocol)
        if record is not None:
            record.trusted = True

    async def run(self, server: web.Server, listening: socket.socket) -> None:
        """Accept connections on a listening socket and hand them to the server's handlers."""
        listening.setblocking(False)
        self._server = server
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    with self._guard.item("accept") as attempt:
                        await self._accept(listening, group)
                    if attempt.error is not None:
                        await self._clock.sleep(_PAUSE)
                    # Connections that have arrived already are accepted without a return to the event loop.
                    await asyncio.sleep(0)
        finally:
            for timer in self._request_timers.values():
                timer.cancel()
            self._request_timers.clear()

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        """Accept one connection. OSError: none can be accepted for now (no descriptors, no memory)."""
        try:
            connection, peer = await asyncio.get_running_loop().sock_accept(listening)
        except OSError as error:
            if error.errno in _OF_ONE_CONNECTION:
                return
            raise
        connection.setblocking(False)
        task: asyncio.Task[bool] | None = None

        def close() -> None:
            if task is not None:
                task.cancel()

        record = ConnectionRecord(source_of(peer), close)
        self._forget_ended()
        if not self._connections.admit(record):
            connection.close()
            return
        task = group.create_task(self._establish(connection, record), name="server-connection")

        def ended(task: asyncio.Task[bool]) -> None:
            if task.cancelled() or not task.result():
                self._connections.forget(record)
                connection.close()
                # Breaks a reference cycle: the buffers of TLS, 256 KiB, would stay until the garbage collector runs.
                record.close = _already_closed

        # A task that is cancelled before its first step runs no code of its own, not even a ``finally``.
        task.add_done_callback(ended)

    async def _establish(self, connection: socket.socket, record: ConnectionRecord) -> bool:
        """Bring a connection up and hand it to aiohttp's handler; return whether it is up.

        Errors concern this connection only.
        """
        with self._guard.item("handshake"):
            return await self._handshake(connection, record)
        return False

    async def _handshake(self, connection: socket.socket, record: ConnectionRecord) -> bool:
        """Do the handshake; return whether the connection is up."""
        limits: dict[str, Seconds] = {}
        context = None
        try:
            if self._tls is not None:
                # TLS buffers are allocated after the first byte only; until then a connection costs one descriptor.
                async with asyncio.timeout(self._limits.handshake):
                    await _readable(connection)
                context = await self._tls()
                self._renew(context)
                limits = {"ssl_handshake_timeout": self._limits.handshake, "ssl_shutdown_timeout": _SHUTDOWN}
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(
                lambda: _HandoverProtocol(self, record), connection, ssl=context, **limits
            )
        except (OSError, PykubeletError, TimeoutError) as error:
            self._connections.drop(record, CloseReason.HANDSHAKE)
            _log.debug("connection handshake failed", extra={"error": str(error)})
            return False
        if context is not self._context:
            record.close()  # it was replaced during the handshake
        return True

    def _renew(self, context: ssl.SSLContext) -> None:
        """Close the connections of an earlier context, thus of an earlier client CA, when their requests have ended."""
        if context is not self._context:
            self._context = context
            for handler, record in self._by_handler.items():
                if record.busy:
                    handler.close()
                else:
                    record.close()

    def hand_over(self, transport: asyncio.Transport, record: ConnectionRecord) -> None:
        """Hand a connection that is up over to aiohttp."""
        server = self._server
        assert server is not None, "run has begun"
        handler = server()
        self._by_handler[handler] = record
        record.close = transport.abort
        timer = asyncio.get_running_loop().call_later(self._limits.first_request, self._request_timed_out, record)
        self._request_timers[record] = timer
        protocol = PacedReads(handler, lambda: _PIECE_OF_TRUSTED if record.trusted else _PIECE)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _forget_ended(self) -> None:
        alive = set(self._server.connections) if self._server is not None else set()
        for handler in [each for each in self._by_handler if each not in alive]:
            record = self._by_handler.pop(handler)
            self._stop_request_timer(record)
            self._connections.forget(record)

    def _stop_request_timer(self, record: ConnectionRecord) -> None:
        timer = self._request_timers.pop(record, None)
        if timer is not None:
            timer.cancel()

    def _request_timed_out(self, record: ConnectionRecord) -> None:
        self._request_timers.pop(record, None)
        self._connections.drop(record, CloseReason.SILENT)


def _already_closed() -> None:
    """Close a connection that is closed."""


async def _readable(connection: socket.socket) -> None:
    """Wait until data has arrived or the peer has closed."""
    loop = asyncio.get_running_loop()
    come = asyncio.Event()
    loop.add_reader(connection, come.set)
    try:
        await come.wait()
    finally:
        loop.remove_reader(connection)


class _HandoverProtocol(asyncio.Protocol):
    """The protocol of a connection until it is handed over, which happens at once."""

    def __init__(self, listener: Listener, record: ConnectionRecord) -> None:
        self._listener = listener
        self._record = record

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._listener.hand_over(transport, self._record)
