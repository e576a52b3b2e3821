"""Composition of node pressure and eviction, from components of several stages."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.observe.pressure import Pressure, PressureConfig, PressureDeps
from pykubelet.kubelet.observe.pressure.decide import thresholds
from pykubelet.kubelet.observe.pressure.observer import MachineObserver
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.eviction import hard_thresholds
from pykubelet.kubelet.types.stats import Summary


@dataclass(frozen=True, slots=True)
class PressureParts:
    """Dependencies of `build_pressure`."""

    image_cri: CriClient
    actuators: Actuators
    workers: PodWorkers
    usage: Callable[[], Awaitable[Summary]]
    events: EventRecorder
    metrics: KubeletMetrics
    clock: Clock


class DiskReclaimer:
    """The reclaim of disk space that no pod needs."""

    def __init__(self, parts: PressureParts) -> None:
        self._parts = parts

    async def reclaim(self) -> None:
        """Remove dead containers and unused images."""
        known = self._parts.workers.known
        await self._parts.actuators.runtime.gc(lambda: frozenset(known()))
        await self._parts.actuators.image_gc.remove_unused()


def build_pressure(settings: Settings, parts: PressureParts) -> Pressure:
    """Build `Pressure` for the settings. Raises Invalid for a bad threshold in the configuration."""

    async def image_path() -> str:
        info = await parts.image_cri.image_fs_info()
        return next((fs.fs_id.mountpoint for fs in info.image_filesystems if fs.fs_id.mountpoint), "")

    observer = MachineObserver(settings.root_dir, image_path, parts.clock)
    deps = PressureDeps(
        observer=observer,
        usage=parts.usage,
        workers=parts.workers,
        reclaimer=DiskReclaimer(parts),
        events=parts.events,
        clock=parts.clock,
        evicted=parts.metrics.evicted,
        decided=parts.metrics.eviction_decided,
    )
    return Pressure(deps, pressure_config(settings))


def pressure_config(settings: Settings) -> PressureConfig:
    """Convert the configuration's fields about eviction. Raises Invalid."""
    config = settings.config
    hard = hard_thresholds(config.eviction_hard, merge_defaults=config.merge_default_eviction_settings)
    grace = {name: settings.seconds(text) for name, text in config.eviction_soft_grace_period.items()}
    return PressureConfig(
        thresholds=thresholds(hard, config.eviction_soft, grace, config.eviction_minimum_reclaim),
        transition=settings.seconds(config.eviction_pressure_transition_period),
        max_grace=config.eviction_max_pod_grace_period,
        local_storage=config.local_storage_capacity_isolation,
    )
