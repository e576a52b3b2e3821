"""Accepting connections: within limits of number and time until the first request, TLS with the certificate of the day.

aiohttp takes a connection over when its handshake is done. Its own time limit holds between requests only, so the
first request of a connection has one here: clients that send nothing, or a header byte a minute, are closed.
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
from pykubelet.base.errors import PykubeletError
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.server.connections import Closed, Connections, Held, source_of
from pykubelet.kubelet.report.server.limits import ConnectionLimits

_log = logging.getLogger(__name__)
_SHUTDOWN: Final[Seconds] = 5.0
_PAUSE: Final[Seconds] = 1.0
Tls: TypeAlias = Callable[[], Awaitable[ssl.SSLContext]]
_OF_ONE_CONNECTION: Final = frozenset(
    {
        *(errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN),
        *(errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT),
    }
)
"""Errors of accept(2) that concern the connection that was to be accepted; the next one may be good."""


class Listener:
    """Accepts until cancelled. ``tls`` gives the context for the next connection; None: plain.

    ``closed`` is told of each connection that is closed, or not taken, to keep the limits.
    """

    def __init__(
        self, limits: ConnectionLimits, clock: Clock, tls: Tls | None, closed: Callable[[Closed], None]
    ) -> None:
        self._server: web.Server | None = None
        self._limits = limits
        self._clock = clock
        self._tls = tls
        self._connections = Connections(limits, closed)
        self._by_handler: dict[RequestHandler, Held] = {}
        self._silent: dict[Held, asyncio.TimerHandle] = {}
        self._guard = Guard("server.connections", clock.monotonic)

    @property
    def connections(self) -> int:
        """How many there are, those in their handshake included."""
        self._forget_ended()
        return len(self._connections)

    @contextmanager
    def serving(self, request: web.BaseRequest, *, proven: bool) -> Iterator[None]:
        """A request is served within the block. ``proven``: its connection is proven by that."""
        held = self._by_handler.get(request.protocol)
        if held is None:
            yield
            return
        self._heard(held)
        held.proven |= proven
        self._connections.begin(held)
        try:
            yield
        finally:
            self._connections.end(held)

    def prove(self, request: web.BaseRequest) -> None:
        """The request's connection belongs to a client with rights."""
        held = self._by_handler.get(request.protocol)
        if held is not None:
            held.proven = True

    async def run(self, server: web.Server, listening: socket.socket) -> None:
        """Accept on a listening socket, and let the server's handlers have the connections."""
        listening.setblocking(False)
        self._server = server
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    with self._guard.item("accept") as attempt:
                        await self._accept(listening, group)
                    if attempt.error is not None:
                        await self._clock.sleep(_PAUSE)
        finally:
            for timer in self._silent.values():
                timer.cancel()
            self._silent.clear()

    async def _accept(self, listening: socket.socket, group: asyncio.TaskGroup) -> None:
        """Accept one connection. OSError: none can be accepted for now (no descriptors, no memory)."""
        try:
            connection, peer = await asyncio.get_running_loop().sock_accept(listening)
        except OSError as error:
            if error.errno in _OF_ONE_CONNECTION:
                return
            raise
        connection.setblocking(False)
        task: asyncio.Task[None] | None = None

        def close() -> None:
            if task is not None:
                task.cancel()

        held = Held(source_of(peer), close)
        self._forget_ended()
        if not self._connections.admit(held):
            connection.close()
            return
        task = group.create_task(self._take(connection, held), name="server-connection")

    async def _take(self, connection: socket.socket, held: Held) -> None:
        """From the TCP connection to aiohttp's handler; whatever goes wrong concerns this connection only."""
        taken = False
        try:
            with self._guard.item("handshake"):
                taken = await self._shake(connection, held)
        finally:
            if not taken:
                self._connections.forget(held)
                connection.close()

    async def _shake(self, connection: socket.socket, held: Held) -> bool:
        """Whether the connection is up."""
        limits: dict[str, Seconds] = {}
        context = None
        try:
            if self._tls is not None:
                # Before its first byte a connection costs a descriptor, and not the buffers of TLS.
                async with asyncio.timeout(self._limits.handshake):
                    await _readable(connection)
                context = await self._tls()
                limits = {"ssl_handshake_timeout": self._limits.handshake, "ssl_shutdown_timeout": _SHUTDOWN}
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: _Greeter(self, held), connection, ssl=context, **limits)
        except (OSError, PykubeletError, TimeoutError) as error:
            self._connections.drop(held, Closed.HANDSHAKE)
            _log.debug("connection not taken", extra={"error": str(error)})
            return False
        return True

    def hand_over(self, transport: asyncio.Transport, held: Held) -> None:
        """A connection is up: aiohttp's from here on."""
        server = self._server
        assert server is not None, "run has begun"
        handler = server()
        self._by_handler[handler] = held
        held.close = transport.abort
        timer = asyncio.get_running_loop().call_later(self._limits.first_request, self._silenced, held)
        self._silent[held] = timer
        transport.set_protocol(handler)
        handler.connection_made(transport)

    def _forget_ended(self) -> None:
        alive = set(self._server.connections) if self._server is not None else set()
        for handler in [each for each in self._by_handler if each not in alive]:
            held = self._by_handler.pop(handler)
            self._heard(held)
            self._connections.forget(held)

    def _heard(self, held: Held) -> None:
        timer = self._silent.pop(held, None)
        if timer is not None:
            timer.cancel()

    def _silenced(self, held: Held) -> None:
        self._silent.pop(held, None)
        self._connections.drop(held, Closed.SILENT)


async def _readable(connection: socket.socket) -> None:
    """Wait until something has come, or the other side has closed."""
    loop = asyncio.get_running_loop()
    come = asyncio.Event()
    loop.add_reader(connection, come.set)
    try:
        await come.wait()
    finally:
        loop.remove_reader(connection)


class _Greeter(asyncio.Protocol):
    """What a connection talks to until it is handed over, which is at once."""

    def __init__(self, listener: Listener, held: Held) -> None:
        self._listener = listener
        self._held = held

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._listener.hand_over(transport, self._held)
