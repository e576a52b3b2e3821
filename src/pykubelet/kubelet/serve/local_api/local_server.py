"""The local API server: pods, events and logs over a unix socket, for kubectl and this project's CLI."""

import asyncio
import logging
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.serving import ServerConfig, application
from pykubelet.kubelet.serve.local_api.agent_routes import AgentRoutes
from pykubelet.kubelet.serve.local_api.kube_routes import KubeRoutes
from pykubelet.kubelet.serve.local_api.local_interfaces import LocalConfig, LocalDeps
from pykubelet.kubelet.serve.local_api.object_routes import ObjectRoutes
from pykubelet.kubelet.serve.local_api.unix_socket import listening
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.kubelet.serve.logs.log_response import LogSource

_log = logging.getLogger(__name__)
_LINGERING: Final[Seconds] = 10.0


class LocalServer:
    """The local API server; serves until cancelled.

    Only the agent's user can open the socket, so there is no further authentication.
    """

    def __init__(self, config: LocalConfig, deps: LocalDeps) -> None:
        self._config = config
        self._deps = deps
        self.serving = asyncio.Event()
        """Set while requests are answered."""

    async def run(self) -> None:
        """Serve until cancelled. Conflict: another agent serves this socket."""
        with listening(self._config.socket) as server:
            async with asyncio.TaskGroup() as group:
                telemetry = self._deps.telemetry
                watcher = DirWatcher(telemetry.clock)
                watching = group.create_task(watcher.run(), name="log-dirs")
                config = ServerConfig(
                    server_type="local",
                    connections=self._config.connections,
                    slots=self._config.slots,
                    access_check=None,  # the permissions of the socket decide
                    lingering=_LINGERING,
                )
                routes = [
                    *self._kube_routes(watcher).routes(),
                    *ObjectRoutes(self._deps.agent.node, self._deps.agent.manifests).routes(),
                    *self._agent_routes().routes(),
                ]
                try:
                    async with application(config, routes, telemetry.metrics, telemetry.clock) as local:
                        _log.info("local API serving", extra={"socket": str(self._config.socket)})
                        self.serving.set()
                        await local.run(server)
                finally:
                    self.serving.clear()
                    watching.cancel()

    def _kube_routes(self, watcher: DirWatcher) -> KubeRoutes:
        deps = self._deps
        return KubeRoutes(
            pods=deps.pods,
            events=deps.events,
            agent=deps.agent,
            streams=deps.streams,
            logs=LogSource(self._config.pod_logs_dir, deps.pods, watcher),
            clock=deps.telemetry.clock,
        )

    def _agent_routes(self) -> AgentRoutes:
        deps = self._deps
        return AgentRoutes(pods=deps.pods, agent=deps.agent, checks=deps.checks, usage=deps.usage)
