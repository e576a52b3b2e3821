"""The local API server: the agent's pods, events and logs over a unix socket, readable by kubectl and our own CLI."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from pykubelet.kubelet.report.server.dirwatch import DirWatcher
from pykubelet.kubelet.report.server.kube_routes import KubeRoutes
from pykubelet.kubelet.report.server.own_routes import OwnRoutes
from pykubelet.kubelet.report.server.ports import LocalConfig, LocalDeps
from pykubelet.kubelet.report.server.responses import Requests
from pykubelet.kubelet.report.server.unix_socket import listening

_log = logging.getLogger(__name__)
_MAX_BODY: Final = 64 * 1024


class LocalServer:
    """Serves until cancelled. Only the agent's user gets at the socket, so there is no further authentication."""

    def __init__(self, config: LocalConfig, deps: LocalDeps) -> None:
        self._config = config
        self._deps = deps
        self.serving = asyncio.Event()
        """Set while requests are answered."""

    async def run(self) -> None:
        """Serve. Conflict: another agent serves this socket."""
        with listening(self._config.socket) as server:
            async with asyncio.TaskGroup() as group:
                watcher = DirWatcher()
                watching = group.create_task(watcher.run(), name="log-dirs")
                requests = Requests("local", self._deps.meter, self._config.max_requests)
                routes = [
                    *KubeRoutes(self._config, self._deps, watcher).routes(),
                    *OwnRoutes(self._deps).routes(),
                ]
                try:
                    async with running(routes, requests) as runner:
                        await web.SockSite(runner, server).start()
                        _log.info("local API serving", extra={"socket": str(self._config.socket)})
                        self.serving.set()
                        await asyncio.Event().wait()
                finally:
                    self.serving.clear()
                    watching.cancel()


@asynccontextmanager
async def running(routes: Sequence[web.AbstractRouteDef], requests: Requests) -> AsyncIterator[web.AppRunner]:
    """A runner for these routes, set up. At the end requests that still run are cancelled."""
    app = web.Application(middlewares=[requests.middleware], client_max_size=_MAX_BODY)
    app.add_routes(routes)
    # Handlers are cancelled when their client leaves, or watches of clients long gone would pile up.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        yield runner
    finally:
        await requests.end()
        await runner.cleanup()
