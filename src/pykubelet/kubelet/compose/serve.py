"""Composition of the servers: the local API (socket), health and metrics, and the kubelet API."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.kubelet_api import KubeletApiDeps, build_kubelet_api, log_fault
from pykubelet.kubelet.compose.local_api.build import build_view
from pykubelet.kubelet.compose.local_api.runtime_streams import RuntimeStreams
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.compose.stages import Stages
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.plan.loop_health import stuck_after
from pykubelet.kubelet.serve.common.binding import Listen
from pykubelet.kubelet.serve.common.health import HealthServer
from pykubelet.kubelet.serve.common.server_interfaces import HealthConfig, HealthDeps
from pykubelet.kubelet.serve.local_api import (
    HealthCheck,
    LocalConfig,
    LocalDeps,
    LocalServer,
)

if TYPE_CHECKING:
    from pykubelet.kubelet.serve.kubelet_api import KubeletApiServer


class Servers(Struct, frozen=True, kw_only=True):
    """The servers of the agent."""

    local: LocalServer
    health: HealthServer | None
    """None: the configuration has no port for it."""
    kubelet_api: "KubeletApiServer | None"
    """None: it is not enabled."""
    checks: Mapping[str, HealthCheck]
    """The checks of /healthz by name."""

    async def serving(self) -> None:
        """Wait until all of them serve."""
        for server in (self.local, self.health, self.kubelet_api):
            if server is not None:
                await server.serving.wait()

    def fault(self) -> str | None:
        """Return why the agent does not work and has to be started again, or None."""
        return log_fault() or self.checks["syncloop"]()

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        parts = {"local-api": self.local.run()}
        if self.health is not None:
            parts["health-server"] = self.health.run()
        if self.kubelet_api is not None:
            parts["kubelet-api"] = self.kubelet_api.run()
        return parts


def build_serve(
    foundation: Foundation, stages: Stages, *, configuration: Callable[[], ConfigView], listen: Listen
) -> Servers:
    """Build the servers. ``configuration`` returns the state of the configuration, ``listen`` their sockets."""
    settings, recorders, usage, cri = (
        foundation.settings,
        foundation.recorders,
        stages.observers.usage,
        foundation.clients.cri,
    )
    config, telemetry = settings.config, recorders.telemetry(recorders.metrics.http)
    pods, streams = stages.reports.view, RuntimeStreams(cri)
    checks = _health_checks(foundation.live.current, stages.control.loop, stages.observers)
    local = LocalDeps(
        pods=pods,
        events=recorders.events,
        agent=build_view(foundation, stages, configuration),
        streams=streams,
        checks=checks,
        telemetry=telemetry,
        usage=usage.cpu_and_memory,
    )
    health = HealthDeps(
        checks=checks,
        render_metrics=recorders.metrics.render,
        render_probe_metrics=recorders.metrics.render_probes,
        telemetry=telemetry,
    )
    api = KubeletApiDeps(
        pods=pods,
        cri=cri,
        streams=streams,
        usage=usage,
        checks=checks,
        access=foundation.access,
        telemetry=recorders.telemetry(recorders.metrics),
        listen=listen,
    )
    return Servers(
        local=LocalServer(LocalConfig(settings.socket, settings.pod_log_dir), local),
        health=HealthServer(HealthConfig(config.healthz_bind_address, config.healthz_port), health, listen=listen)
        if config.healthz_port
        else None,
        kubelet_api=build_kubelet_api(settings, api),
        checks=checks,
    )


def _health_checks(settings: Callable[[], Settings], loop: SyncLoop, observers: Observers) -> dict[str, HealthCheck]:
    """Return the checks of /healthz by name. ``settings`` returns those in force."""
    return {
        "ping": _ping,
        "syncloop": partial(_loop_fault, settings, loop),
        "pleg": observers.pleg.healthy,
        "runtime": observers.health.healthy,
    }


def _ping() -> None:
    """The check of an agent that answers."""


def _loop_fault(settings: Callable[[], Settings], loop: SyncLoop) -> str | None:
    now = settings()
    return loop.fault(stuck_after(now.seconds(now.config.sync_frequency)))
