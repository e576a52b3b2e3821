"""Connections that have not named a valid URL yet. Any process of the machine can make them: few, and not for long."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pykubelet.base.units import Seconds

MOST: Final = 256
"""For one more, the oldest is closed."""
PATIENCE: Final[Seconds] = 10.0


class UnauthenticatedConnections:
    """Makes the handlers of connections to a server."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._waiting: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Oldest first."""
        self._closed = False

    def handler(self) -> RequestHandler:
        """For a new connection; it is closed unless it is known soon."""
        if len(self._waiting) >= MOST:
            self._drop(next(iter(self._waiting)))
        made = self._server()
        self._waiting[made] = asyncio.get_running_loop().call_later(PATIENCE, self._drop, made)
        if self._closed:
            self._drop(made)
        return made

    def known(self, protocol: RequestHandler) -> None:
        """It has named a URL, and may stay."""
        timer = self._waiting.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Close all, and those that are still being accepted."""
        self._closed = True
        for each in list(self._waiting):
            self._drop(each)

    def _drop(self, handler: RequestHandler) -> None:
        self._waiting.pop(handler).cancel()
        # A new one is given its transport in the loop's next turn.
        asyncio.get_running_loop().call_later(0, _abort, handler)


def _abort(handler: RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()
