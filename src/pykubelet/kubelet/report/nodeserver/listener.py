"""Accepting connections: bounded in number and in time until the first request, TLS with the certificate of the day.

aiohttp takes a connection over when its handshake is done. Its own time limit holds between requests only, so the
first request of a connection has one here: clients that send nothing, or a header byte a minute, are closed.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from aiohttp import web

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_BACKLOG: Final = 128
_HANDSHAKE: Final[Seconds] = 10.0
_SHUTDOWN: Final[Seconds] = 5.0
Tls: TypeAlias = Callable[[], Awaitable[ssl.SSLContext]]
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a listener puts up with."""

    connections: int
    first_request: Seconds
    """A connection that has not sent its first request by then is closed."""


class Listener:
    """Accepts until cancelled. ``tls`` gives the context for the next connection; None: plain TCP."""

    def __init__(self, limits: Limits, clock: Clock, tls: Tls | None) -> None:
        self._server: web.Server | None = None
        self._limits = limits
        self._clock = clock
        self._tls = tls
        self._shaking = 0
        self._silent: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    @property
    def connections(self) -> int:
        """How many there are, those in their handshake included."""
        return self._shaking + (len(self._server.connections) if self._server is not None else 0)

    def heard(self, transport: asyncio.BaseTransport | None) -> None:
        """A request came on this connection."""
        timer = None if transport is None else self._silent.pop(transport, None)
        if timer is not None:
            timer.cancel()

    async def run(self, server: web.Server, listening: socket.socket) -> None:
        """Accept on a listening socket, and let the server's handlers have the connections."""
        listening.setblocking(False)
        self._server = server
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    connection = await self._accept(listening)
                    if connection is None:
                        continue
                    if self.connections >= self._limits.connections:
                        connection.close()
                        continue
                    group.create_task(self._take(loop, connection), name="node-server-connection")
        finally:
            for timer in self._silent.values():
                timer.cancel()
            self._silent.clear()

    async def _accept(self, listening: socket.socket) -> socket.socket | None:
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                _log.warning("cannot take connections for now", extra={"error": error.strerror})
                await self._clock.sleep(1.0)
            return None
        connection.setblocking(False)
        return connection

    async def _take(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        """From the TCP connection to aiohttp's handler; whatever goes wrong concerns this connection only."""
        self._shaking += 1
        try:
            context = await self._tls() if self._tls is not None else None
            limits = {"ssl_handshake_timeout": _HANDSHAKE, "ssl_shutdown_timeout": _SHUTDOWN} if context else {}
            await loop.connect_accepted_socket(lambda: _Greeter(self), connection, ssl=context, **limits)
        except (OSError, PykubeletError, TimeoutError) as error:
            connection.close()
            _log.debug("connection not taken", extra={"error": str(error)})
            return
        except BaseException:
            connection.close()
            raise
        finally:
            self._shaking -= 1

    def hand_over(self, transport: asyncio.Transport) -> None:
        """A connection is up: aiohttp's from here on."""
        assert self._server is not None, "run has begun"
        loop = asyncio.get_running_loop()
        self._silent[transport] = loop.call_later(self._limits.first_request, self._silenced, transport)
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)

    def _silenced(self, transport: asyncio.Transport) -> None:
        self._silent.pop(transport, None)
        transport.abort()


class _Greeter(asyncio.Protocol):
    """What a connection talks to until it is handed over, which is at once."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._listener.hand_over(transport)


def bind(address: str, port: int) -> socket.socket:
    """A listening socket for all that is meant by the address; ``0.0.0.0`` takes IPv6 too where there is any.

    Permanent: it cannot be had, and what to do.
    """
    try:
        if address in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise Permanent(
            f"cannot listen on {address}:{port} for the node's server ({error.strerror}); "
            "set port (and address) in the configuration to a free one, or enableServer to false"
        ) from error
