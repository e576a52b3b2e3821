"""Composition of the stage observe: runtime health, probes, PLEG, usage, node pressure, node shutdown."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents
from pykubelet.kubelet.compose.adapters import (
    DiskReclaimer,
    PlegMeter,
    ProbeExec,
    ProbeMeter,
    RuntimeStatusReader,
    measured_events,
)
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.report import Reports
from pykubelet.kubelet.observe.eviction import EvictionDeps, EvictionManager
from pykubelet.kubelet.observe.eviction.eviction_config import alarm_config, eviction_config, limited_cgroup
from pykubelet.kubelet.observe.eviction.memory_alarm import MemoryAlarm
from pykubelet.kubelet.observe.eviction.signal_observer import MachineObserver
from pykubelet.kubelet.observe.node_shutdown import NodeShutdown, ShutdownDeps
from pykubelet.kubelet.observe.node_shutdown.shutdown_config import shutdown_config
from pykubelet.kubelet.observe.node_shutdown.shutdown_interfaces import Logind
from pykubelet.kubelet.observe.pleg import Pleg, PlegDeps
from pykubelet.kubelet.observe.probes import ProbeDeps, ProbeHandlers, ProbeManager
from pykubelet.kubelet.observe.runtime_health import RuntimeHealth, RuntimeHealthDeps
from pykubelet.kubelet.observe.stats import NodeUsage, StatsDeps
from pykubelet.kubelet.observe.stats.stats_config import stats_config
from pykubelet.linux import cgroups


class Probes(Struct, frozen=True, kw_only=True):
    """The probes of containers: when each one runs, and its handlers, which hold connections."""

    manager: ProbeManager
    handlers: ProbeHandlers


class Observers(Struct, frozen=True, kw_only=True):
    """The components of the stage."""

    health: RuntimeHealth
    probes: Probes
    pleg: Pleg
    pleg_meter: PlegMeter
    usage: NodeUsage
    """The usage figures, for eviction, the servers and ``top``."""
    eviction: EvictionManager
    shutdown: NodeShutdown
    node_changed: tuple[Callbacks[[]], ...]
    """The events after which the Node object differs: the runtime responds again, a shutdown of the machine begins or
    is cancelled."""


def build_observe(foundation: Foundation, *, actuators: Actuators, reports: Reports) -> Observers:
    """Build the stage. Raises Invalid for a bad threshold in the configuration."""
    recovered, shutdown_changed = Callbacks[[]](foundation.tables.queue.post_recovered), Callbacks[[]]()
    pleg_meter = PlegMeter(foundation.recorders.metrics.pleg)
    usage = _usage(foundation, actuators, reports)
    return Observers(
        health=_health(foundation, actuators, recovered),
        probes=_probes(foundation, actuators),
        pleg=_pleg(foundation, actuators, pleg_meter, recovered=recovered),
        pleg_meter=pleg_meter,
        usage=usage,
        eviction=_eviction(foundation, actuators, usage),
        shutdown=_shutdown(foundation, shutdown_changed),
        node_changed=(recovered, shutdown_changed),
    )


def _health(foundation: Foundation, actuators: Actuators, recovered: Callbacks[[]]) -> RuntimeHealth:
    ask = RuntimeStatusReader(foundation.clients.cri, actuators.node.runtime)
    return RuntimeHealth(
        RuntimeHealthDeps(ask=ask, recovered=recovered, telemetry=foundation.recorders.telemetry(None))
    )


def _probes(foundation: Foundation, actuators: Actuators) -> Probes:
    recorders, handlers = foundation.recorders, ProbeHandlers(ProbeExec(foundation.clients.cri))
    deps = ProbeDeps(
        prober=handlers,
        on_change=foundation.tables.queue.post,
        telemetry=recorders.telemetry(ProbeMeter(recorders.metrics.probes)),
        host_ips=actuators.node.ips,
    )
    return Probes(manager=ProbeManager(deps), handlers=handlers)


def _pleg(foundation: Foundation, actuators: Actuators, meter: PlegMeter, *, recovered: Callbacks[[]]) -> Pleg:
    recorders = foundation.recorders
    events = RuntimeEvents(foundation.clients.cri, recorders.clock)
    return Pleg(
        PlegDeps(
            list_pods=actuators.runtime.list_pods,
            list_pod=actuators.runtime.list_pod,
            watch_events=measured_events(events.watch, recorders.metrics.pleg, recorders.clock),
            on_event=foundation.tables.queue.post,
            on_recovered=recovered,
            telemetry=recorders.telemetry(meter),
        )
    )


def _usage(foundation: Foundation, actuators: Actuators, reports: Reports) -> NodeUsage:
    return NodeUsage(
        stats_config(foundation.settings),
        StatsDeps(
            pods=reports.view.list,
            pod_cgroup=actuators.resources.own_cgroup,
            cri=foundation.clients.cri,
            image_cri=foundation.clients.image_cri,
            clock=foundation.recorders.clock,
            volumes=actuators.volumes.manager.sizes,
        ),
    )


def _eviction(foundation: Foundation, actuators: Actuators, usage: NodeUsage) -> EvictionManager:
    settings, layout = foundation.settings, cgroups.detect()
    telemetry = foundation.recorders.telemetry(foundation.recorders.metrics.node)
    limited = limited_cgroup(settings, layout)
    observer = MachineObserver(
        root_dir=settings.root_dir,
        image_disks=foundation.clients.image_disks,
        clock=telemetry.clock,
        pods=(cgroups.open_driver(layout), limited) if limited is not None else None,
    )
    reclaimer = DiskReclaimer(
        runtime=actuators.runtime,
        images=actuators.images.gc,
        pods=foundation.tables.pods,
        workers=foundation.tables.workers,
        sources_ready=foundation.tables.mux.all_ready,
        wanted=foundation.tables.mux.uids,
    )
    deps = EvictionDeps(
        observer=observer,
        usage=usage.summary,
        alarm=MemoryAlarm(alarm_config(settings, layout), telemetry.clock),
        workers=foundation.tables.workers,
        reclaimer=reclaimer,
        telemetry=telemetry,
    )
    return EvictionManager(deps, eviction_config(settings))


def _shutdown(foundation: Foundation, changed: Callbacks[[]]) -> NodeShutdown:
    telemetry = foundation.recorders.telemetry(foundation.recorders.metrics.node)
    return NodeShutdown(
        ShutdownDeps(connect=_connect, workers=foundation.tables.workers, changed=changed, telemetry=telemetry),
        shutdown_config(foundation.settings),
    )


@asynccontextmanager
async def _connect() -> AsyncIterator[Logind]:
    # Imported here, since most agents do not talk to the message bus.
    from pykubelet.linux.dbus.logind import open_logind
    from pykubelet.linux.dbus.message_bus import system_bus_path

    async with open_logind(system_bus_path()) as logind:
        yield logind
