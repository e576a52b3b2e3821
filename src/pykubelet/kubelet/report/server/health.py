"""/healthz and /metrics over TCP, on loopback unless the configuration says otherwise. GET and HEAD only."""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.report.metrics import CONTENT_TYPE
from pykubelet.kubelet.report.server.binding import bind
from pykubelet.kubelet.report.server.ports import HealthCheck, HealthConfig, HealthDeps
from pykubelet.kubelet.report.server.serving import ServerConfig, application

_log = logging.getLogger(__name__)


class HealthServer:
    """Serves until cancelled."""

    def __init__(self, config: HealthConfig, deps: HealthDeps) -> None:
        self._config = config
        self._deps = deps
        self.port: int | None = None
        """The port while it serves; of interest if it was left to the kernel."""
        self.serving = asyncio.Event()

    async def run(self) -> None:
        """Serve. Permanent: the address cannot be had."""
        routes = [
            web.get("/healthz", self._healthz),
            web.get("/healthz/{name}", self._healthz_one),
            web.get("/metrics", self._metrics),
            web.get("/metrics/probes", self._probe_metrics),
        ]
        config = ServerConfig("health", self._config.connections, self._config.slots)
        purpose, remedy = "/healthz and /metrics", "set healthzPort to a free port, or to 0 to do without"
        async with application(config, routes, self._deps.meter, self._deps.clock) as server:
            with bind(self._config.address, self._config.port, purpose, remedy) as listening:
                self.port = listening.getsockname()[1]
                _log.info("health server serving", extra={"address": self._config.address, "port": self.port})
                self.serving.set()
                try:
                    await server.run(listening)
                finally:
                    self.serving.clear()

    async def _healthz(self, request: web.Request) -> web.Response:
        return report_checks(self._deps.checks, verbose="verbose" in request.query)

    async def _healthz_one(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._deps.checks:
            raise NotFound(f"there is no health check {name!r}; there are: {', '.join(self._deps.checks)}")
        return report_checks({name: self._deps.checks[name]}, verbose=False)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._deps.render_metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _probe_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._deps.render_probe_metrics(), headers={"Content-Type": CONTENT_TYPE})


def report_checks(checks: Mapping[str, HealthCheck], *, verbose: bool) -> web.Response:
    """``ok``, or a line for each check, with the reasons of those that fail."""
    faults = {name: check() for name, check in checks.items()}
    failed = any(fault is not None for fault in faults.values())
    if not failed and not verbose:
        return web.Response(text="ok")
    lines = [f"[+]{name} ok" if fault is None else f"[-]{name} failed: {fault}" for name, fault in faults.items()]
    lines.append("healthz check failed" if failed else "healthz check passed")
    return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)
