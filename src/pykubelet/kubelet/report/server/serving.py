"""What all servers have in common: an application behind a listener, with limits, ended together."""

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from pykubelet.base.clock import Clock
from pykubelet.base.units import KIB, Seconds
from pykubelet.kubelet.report.server.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.report.server.listener import Listener, Tls
from pykubelet.kubelet.report.server.ports import HttpMeter
from pykubelet.kubelet.report.server.responses import Manner, Requests
from pykubelet.kubelet.report.server.slots import Slots

_MAX_BODY: Final = 64 * KIB
_MAX_LINE: Final = 128 * KIB
"""Commands of an exec are in the request line."""
_MAX_FIELD: Final = 16 * KIB
_MAX_HEADERS: Final = 64
_IDLE: Final[Seconds] = 90.0
_SHUTDOWN: Final[Seconds] = 0.1
Prove: TypeAlias = Callable[[web.BaseRequest], None]
"""Tells that the client of a request has rights here."""
Door: TypeAlias = Callable[[Prove], Middleware]
"""Makes the middleware that lets requests in."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server."""

    server_type: str
    """In metrics."""
    connections: ConnectionLimits
    slots: SlotLimits
    manner: Manner = field(default_factory=Manner)
    door: Door | None = None
    """None: every client that can connect is let in."""
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Server:
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
    """The application of these routes. At the end requests that still run are cancelled."""
    closed = partial(meter.http_connection_closed, config.server_type)
    listener = Listener(config.connections, clock, config.tls, closed)
    requests = Requests(config.server_type, meter, config.manner)
    slots = Slots(config.slots, config.manner.show)
    presence = _presence(listener, proven=config.door is None)
    door = [config.door(listener.prove)] if config.door is not None else []
    app = web.Application(
        middlewares=(presence, requests.middleware, *door, slots.middleware), client_max_size=_MAX_BODY
    )
    app.add_routes(routes)
    # Handlers are cancelled when their client leaves, or watches of clients long gone would pile up.
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_quiet(),
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN,
        keepalive_timeout=_IDLE,
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


def _quiet() -> logging.Logger:
    """aiohttp's logger without what clients cause: any client could fill the log with bad requests."""
    logger = logging.getLogger(f"{__name__}.aiohttp")
    logger.addFilter(_is_defect)
    return logger


def _is_defect(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError | ssl.SSLError)


def _presence(listener: Listener, *, proven: bool) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        with listener.serving(request, proven=proven):
            return await handler(request)

    return middleware
