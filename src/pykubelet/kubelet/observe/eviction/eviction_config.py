"""The configuration's fields about eviction."""

from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds, parse_duration
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.observe.eviction.eviction_types import EvictionConfig, Signal
from pykubelet.kubelet.observe.eviction.memory_alarm import AlarmConfig
from pykubelet.kubelet.observe.eviction.plan.thresholds import thresholds
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle, root_name, to_path
from pykubelet.kubelet.types.resources.eviction import hard_thresholds
from pykubelet.linux import cgroups

_PRESSURE: Final = Path("/proc/pressure/memory")


def eviction_config(settings: Settings) -> EvictionConfig:
    """Convert the configuration's fields. Raises Invalid."""
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


def limited_cgroup(settings: Settings, layout: cgroups.Layout) -> str | None:
    """Return the path of the cgroup of all pods; None: no threshold may be about it, and none will after a reload."""
    return _pods_path(settings) if layout.version and _has_allocatable(settings.config) else None


def alarm_config(settings: Settings, layout: cgroups.Layout) -> AlarmConfig:
    """Return the kernel's files that report memory pressure; those of cgroups only with ``kernelMemcgNotification``."""
    config = settings.config
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


def _pods_path(settings: Settings) -> str:
    config = settings.config
    return to_path(root_name(config.cgroup_root or "/"), NameStyle(config.cgroup_driver))
