"""The kubelet API server: HTTPS on :10250 for the API server and monitoring, and the optional read-only port."""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Final

from aiohttp import web

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.binding import Listen, bind
from pykubelet.kubelet.serve.common.listener import Tls
from pykubelet.kubelet.serve.common.responses import ResponseStyle
from pykubelet.kubelet.serve.common.serving import ServerConfig, application
from pykubelet.kubelet.serve.kubelet_api.access.access_middleware import access_middleware
from pykubelet.kubelet.serve.kubelet_api.access.authentication import Authenticator
from pykubelet.kubelet.serve.kubelet_api.access.authorization import Authorizer
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import KubeletApiServerConfig, KubeletApiServerDeps
from pykubelet.kubelet.serve.kubelet_api.routes.debug_routes import DebugRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.disabled import disabled_routes
from pykubelet.kubelet.serve.kubelet_api.routes.info_routes import InfoRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.node_routes import NodeRoutes
from pykubelet.kubelet.serve.kubelet_api.routes.pod_routes import PodRoutes
from pykubelet.kubelet.serve.kubelet_api.serving_certificate import ServingCertificate
from pykubelet.kubelet.serve.kubelet_api.tls_contexts import TlsContexts
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.kubelet.serve.logs.log_response import LogSource
from pykubelet.models.meta_v1 import Status

_log = logging.getLogger(__name__)

_PURPOSE: Final = "the kubelet API server"
_REMEDY: Final = "set port (and address) in the configuration to a free one, or enableServer to false"
_METRICS: Final = frozenset({"cadvisor", "probes", "resource", "slis"})
_CERTIFICATE: Final[Seconds] = 10.0
"""Time for a look at the files of the serving certificate; without it, a connection is closed."""
_KNOWN: Final = frozenset(
    (
        *("attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz"),
        *("logs", "metrics", "pods", "portForward", "run", "runningpods", "stats", "statusz"),
    )
)


class KubeletApiServer:
    """The kubelet API server; serves until cancelled."""

    def __init__(self, config: KubeletApiServerConfig, deps: KubeletApiServerDeps, *, listen: Listen = bind) -> None:
        self._config = config
        self._deps = deps
        self._listen = listen
        self.port: int | None = None
        """The bound port while it serves; differs from the configured one if that is 0."""
        self.read_only_port: int | None = None
        self.serving = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled.

        Permanent: an address cannot be bound. Invalid: certificate, client CA, TLS or access settings are wrong.
        """
        self._check_settings()
        tls = await self._tls()
        try:
            async with asyncio.TaskGroup() as group:
                watcher = DirWatcher(self._deps.telemetry.clock)
                group.create_task(watcher.run(), name="kubelet-api-log-dirs")
                if self._config.read_only_port:
                    reading = asyncio.Event()
                    group.create_task(self._serve_reading(reading), name="kubelet-api-read-only")
                    await reading.wait()
                await self._serve_all(watcher, tls)
        finally:
            self.serving.clear()

    def _check_settings(self) -> None:
        """Check the access settings. Invalid: no client could ever be authorized."""
        auth = self._config.auth
        if self._deps.reviews is None and not auth.always_allow:
            raise Invalid(
                "authorization.mode Webhook needs an API server: give the agent a kubeconfig, or set "
                "authorization.mode to AlwaysAllow with client certificates (authentication.x509.clientCAFile)"
            )
        if auth.anonymous and auth.always_allow:
            _log.warning("kubelet API: unauthenticated clients have full access: anonymous and AlwaysAllow are set")

    async def _tls(self) -> Tls:
        certificate = ServingCertificate(
            config=self._config, given=self._deps.certificate, clock=self._deps.telemetry.clock
        )
        contexts = TlsContexts(self._config.tls)

        async def current() -> ssl.SSLContext:
            # One at a time: connections with contexts of their own would close each other.
            owner, files = "serving-certificate", await certificate.files()
            return await blocking.call(owner, contexts.current, files, deadline=_CERTIFICATE, at_once=1)

        try:
            await current()
        except OSError as error:
            raise Permanent(f"cannot store a serving certificate in {self._config.pki_dir}: {error}") from error
        return current

    async def _serve_all(self, watcher: DirWatcher, tls: Tls) -> None:
        config, deps = self._config, self._deps
        logs = LogSource(config.pod_logs_dir, deps.pods, watcher)
        routes = [*self._info_routes()]
        if config.debugging_handlers:
            pods = PodRoutes(
                pods=deps.pods,
                runtime=deps.runtime,
                telemetry=deps.telemetry,
                logs=logs,
                checkpoints=config.checkpoints_dir,
            )
            node = NodeRoutes(config, deps.effective, clock=deps.telemetry.clock)
            routes += [*pods.routes(), *node.routes(), *DebugRoutes(config).routes()]
        else:
            routes += disabled_routes()
        authenticator = Authenticator(config=config.auth, reviews=deps.reviews, clock=deps.telemetry.clock)
        authorizer = Authorizer(
            node_name=config.node_name, config=config.auth, reviews=deps.reviews, clock=deps.telemetry.clock
        )
        server_config = ServerConfig(
            server_type="readwrite",
            connections=config.connections,
            slots=config.slots,
            style=_STYLE,
            access_check=partial(access_middleware, authenticator, authorizer),
            tls=tls,
        )
        async with application(server_config, routes, deps.telemetry.metrics.http, deps.telemetry.clock) as server:
            with self._listen(config.address, config.port, _PURPOSE, _REMEDY) as listening:
                self.port = listening.getsockname()[1]
                _log.info("kubelet API serving", extra={"address": config.address, "port": self.port})
                self.serving.set()
                await server.run(listening)

    def _info_routes(self) -> Sequence[web.RouteDef]:
        """Return the routes of both ports."""
        deps = self._deps
        return InfoRoutes(pods=deps.pods, stats=deps.stats, checks=deps.checks, metrics=deps.telemetry.metrics).routes()

    async def _serve_reading(self, serving: asyncio.Event) -> None:
        """Serve the read-only port, and set ``serving`` then: plain HTTP, GET of the routes without secrets."""
        config, deps = self._config, self._deps
        server_config = ServerConfig(
            server_type="readonly",
            connections=config.connections,
            slots=config.slots,
            style=_STYLE,
            access_check=None,  # as upstream; what it serves is not secret
        )
        routes = self._info_routes()
        async with application(server_config, routes, deps.telemetry.metrics.http, deps.telemetry.clock) as server:
            with self._listen(config.address, config.read_only_port, _PURPOSE, _REMEDY) as listening:
                self.read_only_port = listening.getsockname()[1]
                _log.info("read-only port serving", extra={"address": config.address, "port": self.read_only_port})
                serving.set()
                await server.run(listening)


def bucket(request: web.Request) -> str:
    """Return the label ``path`` of the HTTP metrics: the first path segment if it is a served one, else ``other``."""
    first, _, rest = request.path.lstrip("/").partition("/")
    if first == "metrics" and rest in _METRICS:
        return f"{first}/{rest}"
    return first if first in _KNOWN else "other"


def _plain(status: Status) -> web.Response:
    """Return an error as plain text, which clients print as it is."""
    response = web.Response(status=status.code or 500, text=f"{status.message}\n")
    if status.details is not None and status.details.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(status.details.retry_after_seconds)
    return response


_STYLE: Final = ResponseStyle(_plain, bucket)
