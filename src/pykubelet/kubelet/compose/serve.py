"""Composition of the servers: the local API (socket), health and metrics, and the kubelet API."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.compose.kubelet_api import KubeletApiDeps, build_kubelet_api
from pykubelet.kubelet.compose.local_api.agent_view import LocalApiView
from pykubelet.kubelet.compose.local_api.runtime_streams import RuntimeStreams
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.observe.stats import NodeUsage
from pykubelet.kubelet.serve.common.binding import Listen
from pykubelet.kubelet.serve.common.health import HealthServer
from pykubelet.kubelet.serve.common.server_interfaces import HealthConfig, HealthDeps
from pykubelet.kubelet.serve.local_socket import (
    HealthCheck,
    LocalConfig,
    LocalDeps,
    LocalServer,
    PodsView,
)

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess
    from pykubelet.kubelet.serve.kubelet_api import KubeletApiServer

_LOOP_STUCK: Final[Seconds] = 300.0
"""The sync loop may do nothing for so long, at least: as in the Go kubelet, a starved machine is not a stuck loop."""


class ServeDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the servers."""

    pods: PodsView
    node: LocalApiView
    cri: CriClient
    checks: Mapping[str, HealthCheck]
    usage: NodeUsage
    access: "ApiAccess | None"
    """None: there is no API server."""
    recorders: Recorders
    listen: Listen
    """Returns the listening sockets of the servers."""


class Servers(Struct, frozen=True, kw_only=True):
    """The servers of the agent."""

    local: LocalServer
    health: HealthServer | None
    """None: the configuration has no port for it."""
    kubelet_api: "KubeletApiServer | None"
    """None: it is not enabled."""

    async def serving(self) -> None:
        """Wait until all of them serve."""
        for server in (self.local, self.health, self.kubelet_api):
            if server is not None:
                await server.serving.wait()

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        parts = {"local-api": self.local.run()}
        if self.health is not None:
            parts["health-server"] = self.health.run()
        if self.kubelet_api is not None:
            parts["kubelet-api"] = self.kubelet_api.run()
        return parts


def build_servers(settings: Settings, deps: ServeDeps) -> Servers:
    """Build the servers, which share health checks."""
    config, recorders = settings.config, deps.recorders
    telemetry, streams = recorders.telemetry(), RuntimeStreams(deps.cri)
    local = LocalDeps(
        pods=deps.pods,
        events=recorders.events,
        node=deps.node,
        streams=streams,
        checks=deps.checks,
        telemetry=telemetry,
        usage=deps.usage.cpu_and_memory,
    )
    health = HealthDeps(
        checks=deps.checks,
        render_metrics=recorders.metrics.render,
        render_probe_metrics=recorders.metrics.render_probes,
        telemetry=telemetry,
    )
    api = KubeletApiDeps(
        pods=deps.pods,
        cri=deps.cri,
        streams=streams,
        usage=deps.usage,
        checks=deps.checks,
        access=deps.access,
        telemetry=telemetry,
        listen=deps.listen,
    )
    return Servers(
        local=LocalServer(LocalConfig(settings.socket, settings.pod_log_dir), local),
        health=HealthServer(HealthConfig(config.healthz_bind_address, config.healthz_port), health, listen=deps.listen)
        if config.healthz_port
        else None,
        kubelet_api=build_kubelet_api(settings, api),
    )


def health_checks(settings: Callable[[], Settings], loop: SyncLoop, observers: Observers) -> dict[str, HealthCheck]:
    """Return the checks of /healthz by name. ``settings`` returns those in force."""

    def syncloop() -> str | None:
        now = settings()
        return loop.fault(max(_LOOP_STUCK, 2 * now.seconds(now.config.sync_frequency)))

    def ping() -> None:
        return None

    return {
        "ping": ping,
        "syncloop": syncloop,
        "pleg": observers.pleg.healthy,
        "runtime": observers.health.healthy,
    }


def first_fault(checks: Iterable[HealthCheck]) -> str | None:
    """Return the first fault that a check finds, or None."""
    return next((fault for check in checks if (fault := check()) is not None), None)
