"""The components of node mode that take changes of the configuration while they run."""

from collections.abc import Callable
from typing import Any

from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.live_settings import LivePart
from pykubelet.kubelet.config.plan import field_effects
from pykubelet.kubelet.config.plan.field_effects import LIVE
from pykubelet.kubelet.report.events.event_sink import EventSink
from pykubelet.kubelet.report.node import NodeConfig, NodeReporter


def cluster_live_parts(
    reporter: NodeReporter, events: EventSink, node_config: Callable[[Settings], NodeConfig]
) -> tuple[LivePart[Any], ...]:
    """Return the components that only a node of a cluster has."""
    return (
        LivePart(
            fields=frozenset(LIVE[field_effects.NODE_STATUS]),
            convert=node_config,
            reconfigure=reporter.reconfigure,
        ),
        LivePart(fields=frozenset(LIVE[field_effects.EVENTS]), convert=event_rate, reconfigure=events.reconfigure),
    )


def event_rate(settings: Settings) -> tuple[float, int]:
    """Return the events per second that are sent to the API server, and the burst."""
    return settings.config.event_record_qps, settings.config.event_burst
