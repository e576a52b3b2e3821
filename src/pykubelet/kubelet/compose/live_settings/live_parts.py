"""The components that take changes of the configuration while they run, and the fields that each of them takes."""

from functools import partial
from typing import Any

from pykubelet.kubelet.actuate.assembly import (
    gc_policy,
    image_config,
    node_options,
    rotation_config,
    runtime_config,
    verification,
)
from pykubelet.kubelet.actuate.host import NodeOptions, read_machine
from pykubelet.kubelet.actuate.podruntime import PodRuntime, PodRuntimeConfig
from pykubelet.kubelet.compose.stages import Stages
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.live_settings import LivePart
from pykubelet.kubelet.config.plan import field_effects
from pykubelet.kubelet.config.plan.field_effects import LIVE
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.sources.source_manager import source_periods
from pykubelet.kubelet.observe.eviction.eviction_config import eviction_config
from pykubelet.kubelet.observe.node_shutdown.shutdown_config import shutdown_periods
from pykubelet.kubelet.observe.stats.stats_config import stats_config


def live_parts(stages: Stages) -> tuple[LivePart[Any], ...]:
    """Return the components that every agent has."""
    actuators, observers, sources = stages.actuators, stages.observers, stages.desired.sources
    limit_restarts = partial(_limit_restarts, actuators.runtime, stages.control.workers)
    return (
        LivePart(
            fields=_fields(field_effects.IMAGE_PULLS),
            convert=image_config,
            reconfigure=actuators.images.manager.reconfigure,
        ),
        LivePart(
            fields=_fields(field_effects.PRESENT_IMAGES),
            convert=verification,
            reconfigure=actuators.images.pulled.reconfigure,
        ),
        LivePart(fields=_fields(field_effects.RESTARTS), convert=runtime_config, reconfigure=limit_restarts),
        LivePart(
            fields=_fields(field_effects.SHUTDOWN), convert=shutdown_periods, reconfigure=observers.shutdown.reconfigure
        ),
        LivePart(fields=_fields(field_effects.SOURCES), convert=source_periods, reconfigure=sources.reconfigure),
        LivePart(fields=_fields(field_effects.VOLUMES), convert=stats_config, reconfigure=observers.usage.reconfigure),
        LivePart(
            fields=_fields(field_effects.LOG_ROTATION),
            convert=rotation_config,
            reconfigure=actuators.logs.reconfigure,
        ),
        LivePart(
            fields=_fields(field_effects.IMAGE_GC),
            convert=gc_policy,
            reconfigure=actuators.images.gc.reconfigure,
        ),
        LivePart(
            fields=_fields(field_effects.EVICTION, field_effects.THRESHOLDS),
            convert=eviction_config,
            reconfigure=observers.eviction.reconfigure,
        ),
        LivePart(
            fields=_fields(field_effects.THRESHOLDS, field_effects.SYSCTLS),
            convert=_node_options,
            reconfigure=actuators.node.reconfigure,
        ),
    )


def _limit_restarts(runtime: PodRuntime, workers: PodWorkers, config: PodRuntimeConfig) -> None:
    runtime.reconfigure(config)
    workers.poke_all()  # a container that waits may be due now


def _fields(*takers: str) -> frozenset[str]:
    return frozenset(name for taker in takers for name in LIVE[taker])


def _node_options(settings: Settings) -> NodeOptions:
    return node_options(settings, read_machine(settings))
