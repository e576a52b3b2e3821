"""The node's server: HTTPS on :10250 for the API server and monitoring, and the read-only port where it is on."""

import asyncio
import logging
import ssl
from functools import partial
from typing import Final

from aiohttp import web

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.kubelet.report.nodeserver.access import guarded
from pykubelet.kubelet.report.nodeserver.authn import Authenticator
from pykubelet.kubelet.report.nodeserver.authz import Authorizer
from pykubelet.kubelet.report.nodeserver.certificate import ServingCertificate
from pykubelet.kubelet.report.nodeserver.debug_routes import DebugRoutes
from pykubelet.kubelet.report.nodeserver.info_routes import InfoRoutes
from pykubelet.kubelet.report.nodeserver.node_routes import NodeRoutes
from pykubelet.kubelet.report.nodeserver.pod_routes import PodRoutes
from pykubelet.kubelet.report.nodeserver.ports import NodeServerConfig, NodeServerDeps
from pykubelet.kubelet.report.nodeserver.refusing import disabled_routes
from pykubelet.kubelet.report.nodeserver.tls import TlsContexts
from pykubelet.kubelet.report.server.binding import bind
from pykubelet.kubelet.report.server.dirwatch import DirWatcher
from pykubelet.kubelet.report.server.listener import Tls
from pykubelet.kubelet.report.server.log_response import LogSource
from pykubelet.kubelet.report.server.responses import Manner
from pykubelet.kubelet.report.server.serving import ServerConfig, application
from pykubelet.models.meta_v1 import Status

_log = logging.getLogger(__name__)

_PURPOSE: Final = "the node's server"
_REMEDY: Final = "set port (and address) in the configuration to a free one, or enableServer to false"
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
                watcher = DirWatcher(self._deps.clock)
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
        authenticator = Authenticator(config.auth, deps.reviews, deps.clock)
        authorizer = Authorizer(config.node_name, config.auth, deps.reviews, deps.clock)
        server_config = ServerConfig(
            *("readwrite", config.connections, config.slots, _MANNER),
            door=partial(guarded, authenticator, authorizer),
            tls=tls,
        )
        async with application(server_config, routes, deps.meter, deps.clock) as server:
            with bind(config.address, config.port, _PURPOSE, _REMEDY) as listening:
                self.port = listening.getsockname()[1]
                _log.info("node server serving", extra={"address": config.address, "port": self.port})
                self.serving.set()
                await server.run(listening)

    async def _serve_reading(self) -> None:
        """The read-only port: plain HTTP, for GET of what is harmless."""
        config, deps = self._config, self._deps
        server_config = ServerConfig("readonly", config.connections, config.slots, _MANNER)
        async with application(server_config, InfoRoutes(deps).routes(), deps.meter, deps.clock) as server:
            with bind(config.address, config.read_only_port, _PURPOSE, _REMEDY) as listening:
                self.read_only_port = listening.getsockname()[1]
                _log.info("read-only port serving", extra={"address": config.address, "port": self.read_only_port})
                await server.run(listening)


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


_MANNER: Final = Manner(_plain, bucket)
