"""What the node tells of itself to those who may administer it: configuration, status page, its log files."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from aiohttp import web

import pykubelet
from pykubelet.base.clock import utc
from pykubelet.kubelet.report.nodeserver.node_logs import NodeLogs
from pykubelet.kubelet.report.nodeserver.ports import NodeServerConfig, NodeServerDeps
from pykubelet.kubelet.report.server.responses import json_response

_OFF: Final = (
    "/run/",
    "/exec/",
    "/attach/",
    "/portForward/",
    "/containerLogs/",
    "/runningpods/",
    "/debug/pprof/",
    "/logs/",
)


class NodeRoutes:
    """The handlers."""

    def __init__(self, config: NodeServerConfig, deps: NodeServerDeps) -> None:
        self._deps = deps
        self._logs = NodeLogs(config.node_logs_dir) if config.system_log_handler else None
        self._started = deps.clock.now()

    def routes(self) -> Sequence[web.RouteDef]:
        """What is served."""
        logs = self._logs.handle if self._logs is not None else refuse("logs endpoint is disabled.")
        return [
            web.get("/configz", self._configz),
            web.get("/statusz", self._statusz),
            web.get("/logs/", logs),
            web.get("/logs/{path:.+}", logs),
        ]

    async def _configz(self, _: web.Request) -> web.Response:
        return json_response({"kubeletconfig": self._deps.configuration()})

    async def _statusz(self, request: web.Request) -> web.Response:
        now = self._deps.clock.now()
        roots = {
            "/" + route.resource.canonical.split("/")[1] for route in request.app.router.routes() if route.resource
        }
        lines = [
            "kubelet statusz",
            "Warning: This endpoint is for people; programs should not rely on its form.",
            "",
            f"Started: {utc(self._started):%Y-%m-%dT%H:%M:%SZ}",
            f"Up: {timedelta(seconds=int(now - self._started))}",
            f"Binary version: pykubelet {pykubelet.__version__}",
            f"Paths: {' '.join(sorted(roots))}",
        ]
        return web.Response(text="\n".join(lines) + "\n")


def disabled_routes() -> Sequence[web.RouteDef]:
    """Instead of everything here and of the pods' part, where ``enableDebuggingHandlers`` is off."""
    handler = refuse("Debug endpoints are disabled.")
    return [web.route("*", f"{path}{{rest:.*}}", handler) for path in _OFF]


def refuse(text: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that answers 405."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=405, text=f"{text}\n")

    return handler
