"""Serves /metrics on a loopback address or a unix socket."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from pykubelet.base.exposition import CONTENT_TYPE
from pykubelet.base.http.server_log import server_logger
from pykubelet.base.http.unauthenticated import UnauthenticatedConnections
from pykubelet.criserver.config import MetricsAddress

_ACCEPTED = 16
"""Connections that are accepted before requests on others are read."""


class MetricsServer:
    """The HTTP server of ``/metrics``. It authenticates no one: only local users reach it, a socket only root."""

    def __init__(self, address: MetricsAddress, render: Callable[[], Awaitable[bytes]]) -> None:
        self._address = address
        self._render = render

    async def run(self) -> None:
        """Serve until cancelled. OSError: the address is in use."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=server_logger(__name__),
            handle_signals=False,
            shutdown_timeout=1.0,
            lingering_time=0.0,
        )
        await runner.setup()
        assert runner.server is not None, "a runner that is set up has one"
        # Any user may connect to the port, and none of them authenticates, so none keeps a connection.
        connections = UnauthenticatedConnections(runner.server)
        try:
            listener = await self._listen(connections.handler)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                listener.close()
        finally:
            connections.close()
            await runner.cleanup()

    async def _listen(self, handler: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
        loop, path = asyncio.get_running_loop(), self._address.path
        if path is None:
            return await loop.create_server(handler, self._address.host, self._address.port, backlog=_ACCEPTED)
        return await loop.create_unix_server(handler, sock=_bound(path), backlog=_ACCEPTED)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._render(), headers={"Content-Type": CONTENT_TYPE})


def _bound(path: Path) -> socket.socket:
    """A socket that only root may connect to; the one of an earlier server is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_socket():
        path.unlink()
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    return made
