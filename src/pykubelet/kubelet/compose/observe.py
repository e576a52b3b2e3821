"""Composition of the stage observe: runtime health, probes, PLEG, usage, node pressure, node shutdown."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cgroups.plan.cgroup_names import NameStyle, qos_name, root_name, to_path
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents
from pykubelet.kubelet.compose.adapters import (
    DiskReclaimer,
    PlegMeter,
    ProbeExec,
    ProbeMeter,
    RuntimeStatusReader,
    ShutdownWorkers,
)
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.observe.eviction import EvictionConfig, EvictionDeps, EvictionManager
from pykubelet.kubelet.observe.eviction.eviction_types import Signal
from pykubelet.kubelet.observe.eviction.memory_alarm import AlarmConfig, MemoryAlarm
from pykubelet.kubelet.observe.eviction.plan.thresholds import thresholds
from pykubelet.kubelet.observe.eviction.signal_observer import MachineObserver
from pykubelet.kubelet.observe.node_shutdown import NodeShutdown, ShutdownConfig, ShutdownDeps
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period, periods
from pykubelet.kubelet.observe.node_shutdown.shutdown_interfaces import Logind
from pykubelet.kubelet.observe.node_shutdown.shutdown_state import FILE_NAME
from pykubelet.kubelet.observe.pleg import Pleg, PlegDeps
from pykubelet.kubelet.observe.pleg.pleg_interfaces import WatchEvents
from pykubelet.kubelet.observe.probes import ProbeDeps, ProbeHandlers, ProbeManager
from pykubelet.kubelet.observe.runtime_health import RuntimeHealth, RuntimeHealthDeps
from pykubelet.kubelet.observe.stats import NodeUsage, StatsConfig, StatsDeps
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.serve.local_socket import PodsView
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.resources.eviction import hard_thresholds
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.kubelet.types.runtime_events import RuntimeEvent
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.models.core_v1 import Pod

_DROP_IN: Final = Path("/etc/systemd/logind.conf.d/99-kubelet.conf")
"""Name and content are those of the Go kubelet, so that one replaces the other's."""
_PRESSURE: Final = Path("/proc/pressure/memory")


class Observers(Struct, frozen=True, kw_only=True):
    """The components of the stage that run from the start."""

    health: RuntimeHealth
    prober: ProbeHandlers
    probes: ProbeManager
    pleg: Pleg
    pleg_meter: PlegMeter
    runtime_recovered: Callbacks[[]]
    """The runtime responds again."""


def build_observers(
    clients: RuntimeClients, actuators: Actuators, queue: EventQueue, telemetry: Telemetry[KubeletMetrics]
) -> Observers:
    """Build the components, which post to the sync loop's queue."""
    clock, metrics = telemetry.clock, telemetry.metrics
    recovered = Callbacks[[]]()
    recovered.subscribe(queue.post_recovered)
    health = RuntimeHealth(
        RuntimeHealthDeps(
            ask=RuntimeStatusReader(clients.cri, actuators.node.runtime), recovered=recovered, telemetry=telemetry
        )
    )
    prober = ProbeHandlers(ProbeExec(clients.cri))
    probes = ProbeManager(
        ProbeDeps(
            prober=prober,
            on_change=queue.post,
            telemetry=telemetry.measured_by(ProbeMeter(metrics)),
            host_ips=actuators.node.ips,
        )
    )
    pleg_meter = PlegMeter(metrics)
    pleg = Pleg(
        PlegDeps(
            list_pods=actuators.runtime.list_pods,
            list_pod=actuators.runtime.list_pod,
            watch_events=measured_events(RuntimeEvents(clients.cri, clock).watch, metrics, clock),
            on_event=queue.post,
            on_recovered=recovered,
            telemetry=telemetry.measured_by(pleg_meter),
        )
    )
    return Observers(
        health=health, prober=prober, probes=probes, pleg=pleg, pleg_meter=pleg_meter, runtime_recovered=recovered
    )


def measured_events(watch: WatchEvents, metrics: KubeletMetrics, clock: Clock) -> WatchEvents:
    """Wrap the runtime's events with metrics of their delay; a stream counts as open with its first event."""

    async def watched(deliver: Callable[[RuntimeEvent], None]) -> None:
        works = False

        def taken(event: RuntimeEvent) -> None:
            nonlocal works
            if not works:
                works = True
                metrics.event_stream_works()
            metrics.event_received(clock.now() - event.time)
            deliver(event)

        await watch(taken)

    return watched


def build_usage(
    settings: Settings, *, clients: RuntimeClients, actuators: Actuators, pods: PodsView, clock: Clock
) -> NodeUsage:
    """Build the reader of usage figures, for eviction, the servers and ``top``."""
    resources = actuators.resources

    def pod_cgroup(pod: Pod) -> str | None:
        return resources.cgroup_path(pod) if resources.pod_parent(pod) else None

    return NodeUsage(
        stats_config(settings),
        StatsDeps(
            pods=pods.list,
            pod_cgroup=pod_cgroup,
            cri=clients.cri,
            image_cri=clients.image_cri,
            clock=clock,
            volumes=actuators.volumes.sizes,
        ),
    )


def stats_config(settings: Settings) -> StatsConfig:
    """Convert the configuration's fields about usage figures."""
    root, style = root_name(settings.config.cgroup_root or "/"), NameStyle(settings.config.cgroup_driver)
    classes = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)
    return StatsConfig(
        node_name=settings.node_name,
        layout=cgroups.detect(),
        root_dir=settings.root_dir,
        pod_logs_dir=settings.pod_log_dir,
        groups=tuple(to_path(qos_name(root, qos), style) for qos in classes),
        runtime_socket=settings.runtime_endpoint,
        volume_period=settings.seconds(settings.config.volume_stats_agg_period),
    )


class NodeEvictionDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `build_eviction`."""

    clients: RuntimeClients
    actuators: Actuators
    pods: PodManager
    workers: PodWorkers
    sources_ready: Callable[[], bool]
    usage: NodeUsage
    telemetry: Telemetry[KubeletMetrics]


def build_eviction(settings: Settings, deps: NodeEvictionDeps) -> EvictionManager:
    """Build `EvictionManager` for the settings. Raises Invalid for a bad threshold in the configuration."""
    telemetry, actuators = deps.telemetry, deps.actuators
    config = eviction_config(settings)
    observer = MachineObserver(
        root_dir=settings.root_dir,
        image_disks=deps.clients.image_disks,
        clock=telemetry.clock,
        pods=_pods_cgroup(settings),
    )
    return EvictionManager(
        EvictionDeps(
            observer=observer,
            usage=deps.usage.summary,
            alarm=MemoryAlarm(alarm_config(settings), telemetry.clock),
            workers=deps.workers,
            reclaimer=DiskReclaimer(
                runtime=actuators.runtime,
                images=actuators.image_gc,
                pods=deps.pods,
                workers=deps.workers,
                sources_ready=deps.sources_ready,
            ),
            telemetry=telemetry,
        ),
        config,
    )


def _pods_cgroup(settings: Settings) -> tuple[CgroupDriver, str] | None:
    """Return the cgroup of all pods if a threshold may be about it; thresholds may change."""
    layout, config = cgroups.detect(), settings.config
    if not layout.version or not _has_allocatable(config):
        return None
    return cgroups.open_driver(layout), _pods_path(settings)


def _pods_path(settings: Settings) -> str:
    config = settings.config
    return to_path(root_name(config.cgroup_root or "/"), NameStyle(config.cgroup_driver))


def eviction_config(settings: Settings) -> EvictionConfig:
    """Convert the configuration's fields about eviction. Raises Invalid."""
    config = settings.config
    hard = hard_thresholds(config.eviction_hard, merge_defaults=config.merge_default_eviction_settings)
    grace = {name: _grace(name, text) for name, text in config.eviction_soft_grace_period.items()}
    return EvictionConfig(
        thresholds=thresholds(
            hard,
            config.eviction_soft,
            grace,
            config.eviction_minimum_reclaim,
            allocatable=_has_allocatable(config),
        ),
        transition=settings.seconds(config.eviction_pressure_transition_period),
        max_grace=config.eviction_max_pod_grace_period,
        local_storage=config.local_storage_capacity_isolation,
    )


def _grace(signal: str, text: str) -> Seconds:
    try:
        return parse_duration(text)
    except Invalid as error:
        raise Invalid(f"evictionSoftGracePeriod[{signal}]: {error}") from error


def _has_allocatable(config: KubeletConfiguration) -> bool:
    """Return whether all pods together have a limit of memory."""
    return config.cgroups_per_qos and "pods" in config.enforce_node_allocatable


def alarm_config(settings: Settings) -> AlarmConfig:
    """Return the kernel's files that report memory pressure; those of cgroups only with ``kernelMemcgNotification``."""
    layout, config = cgroups.detect(), settings.config
    pods = _pods_path(settings).lstrip("/")
    usage: dict[Signal, Path] = {}
    events: Path | None = None
    if config.kernel_memcg_notification:
        if layout.mode is cgroups.Mode.V2 and layout.unified is not None:
            events = layout.unified / pods / "memory.events"
        elif "memory" in layout.controllers:
            memory = layout.controllers["memory"]
            usage = {Signal.MEMORY: memory, Signal.ALLOCATABLE_MEMORY: memory / pods}
    return AlarmConfig(usage=usage, events=events, pressure=_PRESSURE)


def build_node_shutdown(
    settings: Settings, *, workers: PodWorkers, changed: Callbacks[[]], telemetry: Telemetry[KubeletMetrics]
) -> NodeShutdown:
    """Build the graceful node shutdown. ``changed`` is called when a shutdown begins or is cancelled."""
    return NodeShutdown(
        ShutdownDeps(connect=_connect, workers=ShutdownWorkers(workers), changed=changed, telemetry=telemetry),
        ShutdownConfig(
            periods=shutdown_periods(settings),
            state_file=settings.root_dir / FILE_NAME,
            drop_in=_DROP_IN,
        ),
    )


def shutdown_periods(settings: Settings) -> tuple[Period, ...]:
    """Convert the configuration's fields about the node shutdown."""
    config = settings.config
    by_priority = {
        each.priority: each.shutdown_grace_period_seconds for each in config.shutdown_grace_period_by_pod_priority
    }
    total = settings.seconds(config.shutdown_grace_period)
    return periods(by_priority, total, settings.seconds(config.shutdown_grace_period_critical_pods))


@asynccontextmanager
async def _connect() -> AsyncIterator[Logind]:
    # Imported here, since most agents do not talk to the message bus.
    from pykubelet.linux.dbus.logind import open_logind
    from pykubelet.linux.dbus.message_bus import system_bus_path

    async with open_logind(system_bus_path()) as logind:
        yield logind
