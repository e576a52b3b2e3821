"""Limits for connections that any process on the machine can open: those without a valid request so far, or all."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pykubelet.base.http.paced_reads import PacedReads
from pykubelet.base.units import KIB, Seconds

MOST: Final = 256
"""Limit of such connections; for one more, the oldest is closed."""
PATIENCE: Final[Seconds] = 10.0
"""Time after which such a connection is closed."""

_PIECE: Final = 16 * KIB
"""Bytes that are parsed of a connection before the event loop runs other tasks."""


class UnauthenticatedConnections:
    """Creates the handlers of new connections, and closes those that send no valid URL in time."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._waiting: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections and their deadlines, oldest first."""
        self._closed = False

    def handler(self) -> asyncio.BaseProtocol:
        """Create the protocol of a new connection, which is closed unless ``known`` is called for it in time."""
        if len(self._waiting) >= MOST:
            self._drop(next(iter(self._waiting)))
        made = self._server()
        self._waiting[made] = asyncio.get_running_loop().call_later(PATIENCE, self._drop, made)
        if self._closed:
            self._drop(made)
        return PacedReads(made, lambda: _PIECE)

    def known(self, protocol: RequestHandler) -> None:
        """Keep a connection that has sent a valid URL."""
        timer = self._waiting.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Close all these connections, and those that are still being accepted."""
        self._closed = True
        for each in list(self._waiting):
            self._drop(each)

    def _drop(self, handler: RequestHandler) -> None:
        self._waiting.pop(handler).cancel()
        # A new connection gets its transport in the next iteration of the event loop.
        asyncio.get_running_loop().call_later(0, _abort, handler)


def _abort(handler: RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()
