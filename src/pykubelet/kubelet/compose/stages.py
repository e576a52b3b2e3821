"""The components of each stage, up to the decision of what runs: calls the builders of the stages in their order."""

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.actuate import build_actuate
from pykubelet.kubelet.compose.clients import RuntimeClients, connect
from pykubelet.kubelet.compose.control import build_workers
from pykubelet.kubelet.compose.desired import PodSources, build_sources
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.observe import (
    NodeEvictionDeps,
    Observers,
    build_eviction,
    build_node_shutdown,
    build_observers,
    build_usage,
)
from pykubelet.kubelet.compose.report import Reports, build_reports
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.observe.eviction import EvictionManager
from pykubelet.kubelet.observe.node_shutdown import NodeShutdown
from pykubelet.kubelet.observe.stats import NodeUsage


class Stages(Struct, frozen=True, kw_only=True):
    """The components that do not depend on whether the agent is a node of a cluster."""

    clients: RuntimeClients
    actuators: Actuators
    reports: Reports
    observers: Observers
    usage: NodeUsage
    workers: PodWorkers
    eviction: EvictionManager
    shutdown: NodeShutdown
    shutdown_changed: Callbacks[[]]
    """A shutdown of the machine has begun or was cancelled."""
    sources: PodSources


def build_stages(ground: Foundation) -> Stages:
    """Build the stages. Raises Invalid for an invalid configuration."""
    settings, recorders, queue, access = ground.settings, ground.recorders, ground.queue, ground.access
    manifests, telemetry, clock = ground.manifests, recorders.telemetry(), recorders.clock
    clients = connect(settings, recorders.metrics)
    actuators = build_actuate(
        settings,
        clients=clients,
        local=manifests.objects,
        access=access,
        http=ground.http,
        pods=ground.pods,
        telemetry=telemetry,
    )
    reports = build_reports(actuators=actuators, pods=ground.pods, pending=ground.pending, recorders=recorders)
    observers = build_observers(clients, actuators, queue, telemetry)
    usage = build_usage(settings, clients=clients, actuators=actuators, pods=reports.view, clock=clock)
    workers = build_workers(actuators=actuators, observers=observers, statuses=reports.statuses, recorders=recorders)
    sources = build_sources(settings, manifests=manifests, access=access, queue=queue, clock=clock)
    eviction = build_eviction(
        settings,
        NodeEvictionDeps(
            clients=clients,
            actuators=actuators,
            pods=ground.pods,
            workers=workers,
            sources_ready=sources.mux.all_ready,
            usage=usage,
            telemetry=telemetry,
        ),
    )
    shutdown_changed = Callbacks[[]]()
    shutdown = build_node_shutdown(settings, workers=workers, changed=shutdown_changed, telemetry=telemetry)
    return Stages(
        clients=clients,
        actuators=actuators,
        reports=reports,
        observers=observers,
        usage=usage,
        workers=workers,
        eviction=eviction,
        shutdown=shutdown,
        shutdown_changed=shutdown_changed,
        sources=sources,
    )
