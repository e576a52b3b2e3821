"""Puts a server together: an application behind a listener, with limits, access check and orderly shutdown."""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import Struct, field

from pykubelet.base.clock import Clock
from pykubelet.base.http.server_log import server_logger
from pykubelet.base.units import KIB, Seconds
from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.serve.common.listener import Listener, Tls
from pykubelet.kubelet.serve.common.responses import RequestTracker, ResponseStyle
from pykubelet.kubelet.serve.common.server_interfaces import HttpMeter
from pykubelet.kubelet.serve.common.slots import Slots

_MAX_BODY: Final = 64 * KIB
_MAX_LINE: Final = 128 * KIB
"""Maximum request line in bytes; an exec's command is part of it."""
_MAX_FIELD: Final = 16 * KIB
_MAX_HEADERS: Final = 64
_IDLE: Final[Seconds] = 90.0
_SHUTDOWN: Final[Seconds] = 0.1
MarkTrusted: TypeAlias = Callable[[web.BaseRequest], None]
"""Marks the connection of a request as trusted: its client has access to this server."""
AccessCheck: TypeAlias = Callable[[MarkTrusted], Middleware]
"""Builds the middleware that authenticates and authorizes requests."""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Configuration of one server."""

    server_type: str
    """Label value in the HTTP metrics."""
    connections: ConnectionLimits
    slots: SlotLimits
    access_check: AccessCheck | None
    """None: every client that can connect has access, and counts as trusted."""
    style: ResponseStyle = field(default_factory=ResponseStyle)
    tls: Tls | None = None
    lingering: Seconds = 0.0
    """Seconds in which the rest of a body is read after an answer that did not need it, so that its client gets the
    answer and no reset. Parsing a body of tiny chunks is expensive: 0 where no route takes one and anyone may connect.
    """


class Server(Struct, frozen=True):
    """An application that is ready to serve."""

    listener: Listener
    handlers: web.Server

    async def run(self, listening: socket.socket) -> None:
        """Serve on a listening socket until cancelled."""
        await self.listener.run(self.handlers, listening)


@asynccontextmanager
async def application(
    config: ServerConfig, routes: Sequence[web.AbstractRouteDef], meter: HttpMeter, clock: Clock
) -> AsyncIterator[Server]:
    """Yield a server with these routes. At the end of the block active requests are cancelled."""
    closed = partial(meter.http_connection_closed, config.server_type)
    listener = Listener(limits=config.connections, clock=clock, tls=config.tls, closed=closed)
    requests = RequestTracker(server_type=config.server_type, meter=meter, style=config.style)
    slots = Slots(config.slots, config.style.show)
    tracking = _tracking(listener, trusted=config.access_check is None)
    access_check = [config.access_check(listener.mark_trusted)] if config.access_check is not None else []
    app = web.Application(
        middlewares=(tracking, requests.middleware, *access_check, slots.middleware), client_max_size=_MAX_BODY
    )
    app.add_routes(routes)
    # Handlers are cancelled when their client disconnects; otherwise watches of former clients would pile up.
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=server_logger(__name__),
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN,
        keepalive_timeout=_IDLE,
        lingering_time=config.lingering,
        max_line_size=_MAX_LINE,
        max_field_size=_MAX_FIELD,
        max_headers=_MAX_HEADERS,
    )
    await runner.setup()
    try:
        assert runner.server is not None, "a runner that is set up has one"
        yield Server(listener, runner.server)
    finally:
        await requests.end()
        await runner.cleanup()


def _tracking(listener: Listener, *, trusted: bool) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        with listener.serving(request, trusted=trusted):
            return await handler(request)

    return middleware
