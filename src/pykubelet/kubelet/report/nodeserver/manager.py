"""The node's server: HTTPS on :10250 for the API server and monitoring, and the read-only port where it is on."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.kubelet.report.nodeserver.access import guarded
from pykubelet.kubelet.report.nodeserver.authn import Authenticator
from pykubelet.kubelet.report.nodeserver.authz import Authorizer
from pykubelet.kubelet.report.nodeserver.certificate import ServingCertificate
from pykubelet.kubelet.report.nodeserver.debug_routes import DebugRoutes
from pykubelet.kubelet.report.nodeserver.info_routes import InfoRoutes
from pykubelet.kubelet.report.nodeserver.listener import Limits, Listener, Tls, bind
from pykubelet.kubelet.report.nodeserver.node_routes import NodeRoutes
from pykubelet.kubelet.report.nodeserver.pod_routes import PodRoutes
from pykubelet.kubelet.report.nodeserver.ports import NodeServerConfig, NodeServerDeps
from pykubelet.kubelet.report.nodeserver.refusing import disabled_routes
from pykubelet.kubelet.report.nodeserver.tls import TlsContexts
from pykubelet.kubelet.report.server.dirwatch import DirWatcher
from pykubelet.kubelet.report.server.log_response import LogSource
from pykubelet.kubelet.report.server.responses import Manner, Requests
from pykubelet.models.meta_v1 import Status

_log = logging.getLogger(__name__)

_MAX_BODY: Final = 64 * 1024
_MAX_LINE: Final = 128 * 1024
"""Commands of an exec are in the request line."""
_MAX_FIELD: Final = 16 * 1024
_MAX_HEADERS: Final = 64
_IDLE_SECONDS: Final = 90.0
_SHUTDOWN_SECONDS: Final = 0.1
_METRICS: Final = frozenset({"cadvisor", "probes", "resource", "slis"})
_KNOWN: Final = frozenset(
    (
        *("attach", "checkpoint", "configz", "containerLogs", "debug", "exec", "flagz", "healthz"),
        *("logs", "metrics", "pods", "portForward", "run", "runningpods", "stats", "statusz"),
    )
)


class NodeServer:
    """Serves until cancelled."""

    def __init__(self, config: NodeServerConfig, deps: NodeServerDeps) -> None:
        self._config = config
        self._deps = deps
        self.port: int | None = None
        """The port while it serves; of interest if it was left to the kernel."""
        self.read_only_port: int | None = None
        self.serving = asyncio.Event()

    async def run(self) -> None:
        """Serve. Permanent: an address cannot be had. Invalid: certificate, client CA or TLS settings are wrong."""
        self._check_access()
        tls = await self._tls()
        try:
            async with asyncio.TaskGroup() as group:
                watcher = DirWatcher()
                group.create_task(watcher.run(), name="node-server-log-dirs")
                if self._config.read_only_port:
                    group.create_task(self._serve_reading(), name="node-server-read-only")
                await self._serve_all(watcher, tls)
        finally:
            self.serving.clear()

    def _check_access(self) -> None:
        """Invalid: nobody could ever be let in."""
        auth = self._config.auth
        if self._deps.reviews is None and not auth.always_allow:
            raise Invalid(
                "authorization.mode Webhook needs an API server to ask: give the agent a kubeconfig, or set "
                "authorization.mode to AlwaysAllow with client certificates (authentication.x509.clientCAFile)"
            )
        if auth.anonymous and auth.always_allow:
            _log.warning("everybody may do everything on the node's port: anonymous access and AlwaysAllow are set")

    async def _tls(self) -> Tls:
        certificate = ServingCertificate(self._config, self._deps.certificate, self._deps.clock)
        contexts = TlsContexts(self._config.tls)
        try:
            contexts.current(await certificate.files())
        except OSError as error:
            raise Permanent(f"cannot keep a serving certificate in {self._config.pki_dir}: {error}") from error

        async def current() -> ssl.SSLContext:
            return contexts.current(await certificate.files())

        return current

    async def _serve_all(self, watcher: DirWatcher, tls: Tls) -> None:
        config, deps = self._config, self._deps
        logs = LogSource(config.pod_logs_dir, deps.pods, watcher)
        routes = [*InfoRoutes(deps).routes()]
        if config.debugging_handlers:
            routes += [*PodRoutes(deps, logs, config.checkpoints_dir).routes(), *NodeRoutes(config, deps).routes()]
            routes += DebugRoutes(config).routes()
        else:
            routes += disabled_routes()
        door = guarded(
            Authenticator(config.auth, deps.reviews, deps.clock),
            Authorizer(config.node_name, config.auth, deps.reviews, deps.clock),
        )
        listener = Listener(Limits(config.max_connections, config.header_timeout), deps.clock, tls)
        requests = Requests("readwrite", deps.meter, config.max_requests, Manner(_plain, bucket))
        async with _application(routes, (_hearing(listener), requests.middleware, door), requests) as server:
            with bind(config.address, config.port) as listening:
                self.port = listening.getsockname()[1]
                _log.info("node server serving", extra={"address": config.address, "port": self.port})
                self.serving.set()
                await listener.run(server, listening)

    async def _serve_reading(self) -> None:
        """The read-only port: plain HTTP, for GET of what is harmless."""
        config, deps = self._config, self._deps
        listener = Listener(Limits(config.max_connections, config.header_timeout), deps.clock, None)
        requests = Requests("readonly", deps.meter, config.max_requests, Manner(_plain, bucket))
        routes = InfoRoutes(deps).routes()
        async with _application(routes, (_hearing(listener), requests.middleware), requests) as server:
            with bind(config.address, config.read_only_port) as listening:
                self.read_only_port = listening.getsockname()[1]
                _log.info("read-only port serving", extra={"address": config.address, "port": self.read_only_port})
                await listener.run(server, listening)


def bucket(request: web.Request) -> str:
    """The label ``path`` of the HTTP metrics: the first part of the path if it is one of ours."""
    first, _, rest = request.path.lstrip("/").partition("/")
    if first == "metrics" and rest in _METRICS:
        return f"{first}/{rest}"
    return first if first in _KNOWN else "other"


def _plain(status: Status) -> web.Response:
    """Errors in plain text, which clients show as they are."""
    response = web.Response(status=status.code or 500, text=f"{status.message}\n")
    if status.details is not None and status.details.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(status.details.retry_after_seconds)
    return response


def _hearing(listener: Listener) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        listener.heard(request.transport)
        return await handler(request)

    return middleware


@asynccontextmanager
async def _application(
    routes: Sequence[web.AbstractRouteDef], middlewares: Sequence[Middleware], requests: Requests
) -> AsyncIterator[web.Server]:
    """The protocol factory of an application. At the end requests that still run are cancelled."""
    app = web.Application(middlewares=middlewares, client_max_size=_MAX_BODY)
    app.add_routes(routes)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        keepalive_timeout=_IDLE_SECONDS,
        max_line_size=_MAX_LINE,
        max_field_size=_MAX_FIELD,
        max_headers=_MAX_HEADERS,
    )
    await runner.setup()
    try:
        assert runner.server is not None, "a runner that is set up has one"
        yield runner.server
    finally:
        await requests.end()
        await runner.cleanup()
