"""/healthz and /metrics over TCP, on loopback unless the configuration says otherwise. GET and HEAD only."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.kubelet.report.metrics import CONTENT_TYPE
from pykubelet.kubelet.report.server.local import running
from pykubelet.kubelet.report.server.ports import HealthCheck, HealthConfig, HealthDeps
from pykubelet.kubelet.report.server.responses import Requests

_log = logging.getLogger(__name__)
_MAX_REQUESTS: Final = 64


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
        requests = Requests("health", self._deps.meter, _MAX_REQUESTS)
        async with running(routes, requests) as runner:
            try:
                await web.TCPSite(runner, self._config.address, self._config.port).start()
            except OSError as error:
                raise Permanent(
                    f"cannot listen on {self._config.address}:{self._config.port} for /healthz and /metrics "
                    f"({error.strerror}); set healthzPort to a free port, or to 0 to do without"
                ) from error
            self.port = next((address[1] for address in runner.addresses), None)
            fields = {"address": self._config.address, "port": self.port}
            _log.info("health server serving", extra=fields)
            self.serving.set()
            try:
                await asyncio.Event().wait()
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
