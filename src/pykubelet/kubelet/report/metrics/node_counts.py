"""The metrics that are counted at a scrape: pods, containers, volumes, plugins."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pykubelet.kubelet.report.metrics.metric_types import NodeCounts


class CountsCollector(Collector):
    """Reads the node's counts at each scrape. Built after the components that it counts."""

    def __init__(self, counts: Callable[[], NodeCounts], registry: CollectorRegistry) -> None:
        """Add the counts to the metrics of ``registry``."""
        self._counts = counts
        registry.register(self)

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: registration must not trigger a scrape."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        counts = self._counts()
        for name, text, by_static in (
            ("desired_pods", "Pods that the sources want.", counts.desired_pods),
            ("active_pods", "Wanted pods that have not ended.", counts.active_pods),
        ):
            family = GaugeMetricFamily(f"kubelet_{name}", text, labels=("static",))
            for static in (True, False):
                family.add_metric(("true" if static else "",), by_static.get(static, 0))
            yield family
        working = GaugeMetricFamily(
            "kubelet_working_pods", "Pods with a worker.", labels=("lifecycle", "config", "static")
        )
        for labels, number in counts.working_pods.items():
            working.add_metric((labels.lifecycle, labels.config, labels.static), number)
        yield working
        for name, text, value in (
            ("mirror_pods", "Mirror pods.", counts.mirror_pods),
            ("managed_ephemeral_containers", "Ephemeral containers of desired pods.", counts.ephemeral_containers),
        ):
            yield GaugeMetricFamily(f"kubelet_{name}", text, value=value)
        yield GaugeMetricFamily("kubelet_running_pods", "Pods with a running sandbox.", value=counts.running_pods)
        containers = GaugeMetricFamily("kubelet_running_containers", "Containers.", labels=("container_state",))
        for state, number in counts.running_containers.items():
            containers.add_metric((state,), number)
        yield containers
        for name, text, label, by_state in (
            ("volume_manager_total_volumes", "Volumes of pods, wanted or set up.", "plugin_name", counts.volumes),
            ("plugin_manager_total_plugins", "Plugins, by socket path and state.", "socket_path", counts.plugins),
        ):
            family = GaugeMetricFamily(name, text, labels=(label, "state"))
            for key, number in by_state.items():
                family.add_metric(key, number)
            yield family
        if counts.protected is not None:
            text = "Memory that is never reclaimed, by the requests of Guaranteed pods."
            yield GaugeMetricFamily("kubelet_memory_qos_node_memory_min_bytes", text, value=counts.protected.min)
            text = "Memory that is reclaimed last, by the requests of Burstable pods."
            yield GaugeMetricFamily("kubelet_memory_qos_node_memory_low_bytes", text, value=counts.protected.low)
        text = "Unix time of the last complete list of the runtime's pods."
        yield GaugeMetricFamily("kubelet_pleg_last_seen_seconds", text, value=counts.pleg_last_seen)
