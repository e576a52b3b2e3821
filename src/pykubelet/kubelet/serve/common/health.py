"""The health server: /healthz over TCP, and /metrics where it listens on loopback (the default). GET and HEAD."""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping, Sequence

from aiohttp import web

from pykubelet.base.errors import NotFound
from pykubelet.base.exposition import CONTENT_TYPE
from pykubelet.kubelet.serve.common.api_status import failure
from pykubelet.kubelet.serve.common.binding import Listen, bind
from pykubelet.kubelet.serve.common.responses import status_response
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck, HealthConfig, HealthDeps
from pykubelet.kubelet.serve.common.serving import ServerConfig, application

_log = logging.getLogger(__name__)


class HealthServer:
    """The health server; serves until cancelled."""

    def __init__(self, config: HealthConfig, deps: HealthDeps, *, listen: Listen = bind) -> None:
        self._config = config
        self._deps = deps
        self._listen = listen
        self.port: int | None = None
        """The bound port while it serves; differs from the configured one if that is 0."""
        self.serving = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled. Permanent: the address cannot be bound."""
        config = ServerConfig(
            server_type="health",
            connections=self._config.connections,
            slots=self._config.slots,
            access_check=None,  # as upstream; what others than this machine's clients get is in `_routes`
        )
        telemetry = self._deps.telemetry
        purpose, remedy = "/healthz and /metrics", "set healthzPort to a free port, or to 0 to disable it"
        with self._listen(self._config.address, self._config.port, purpose, remedy) as listening:
            host, port = listening.getsockname()[:2]
            local = ipaddress.ip_address(host).is_loopback
            async with application(config, self._routes(local), telemetry.metrics, telemetry.clock) as server:
                self.port = port
                fields = {"address": self._config.address, "port": port, "metrics": local}
                _log.info("health server serving", extra=fields)
                self.serving.set()
                try:
                    await server.run(listening)
                finally:
                    self.serving.clear()

    def _routes(self, local: bool) -> Sequence[web.RouteDef]:
        """Return the routes.

        Clients are not authenticated here, so other machines can learn only whether the node is healthy.
        """
        return [
            web.get("/healthz", self._healthz),
            web.get("/healthz/{name}", self._healthz_one),
            web.get("/metrics", self._metrics if local else _only_local),
            web.get("/metrics/probes", self._probe_metrics if local else _only_local),
        ]

    async def _healthz(self, request: web.Request) -> web.Response:
        return report_checks(self._deps.checks, verbose="verbose" in request.query)

    async def _healthz_one(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._deps.checks:
            raise NotFound(f"no health check {name!r}; available: {', '.join(self._deps.checks)}")
        return report_checks({name: self._deps.checks[name]}, verbose=False)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._deps.render_metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _probe_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._deps.render_probe_metrics(), headers={"Content-Type": CONTENT_TYPE})


async def _only_local(_: web.Request) -> web.Response:
    text = (
        "metrics are served here only while healthzBindAddress is a loopback address; "
        "scrape the kubelet API (port), which authenticates its clients"
    )
    return status_response(failure(403, text))


def report_checks(checks: Mapping[str, HealthCheck], *, verbose: bool) -> web.Response:
    """Return ``ok``, or a line for each check with the reason of each failure."""
    faults = {name: check() for name, check in checks.items()}
    failed = any(fault is not None for fault in faults.values())
    if not failed and not verbose:
        return web.Response(text="ok")
    lines = [f"[+]{name} ok" if fault is None else f"[-]{name} failed: {fault}" for name, fault in faults.items()]
    lines.append("healthz check failed" if failed else "healthz check passed")
    return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)
