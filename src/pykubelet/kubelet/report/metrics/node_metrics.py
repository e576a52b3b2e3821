"""Metrics of the node: evictions, its graceful shutdown, cgroups, its configuration, and what the agent reports."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments

_RESULTS: Final = ("applied", "unchanged", "refused")


class NodeMetrics:
    """Recorder of what concerns the node."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def cgroup_version(self, version: int) -> None:
        """Set the cgroup version of the host: 1 or 2."""
        self._own.cgroup_version.set(version)

    def evicted(self, signal: str) -> None:
        """Count an eviction for node pressure or for exceeding local storage limits."""
        self._own.evictions.labels(signal).inc()

    def eviction_decided(self, signal: str, age: Seconds) -> None:
        """Record the age of the measurements on which an eviction was decided."""
        self._own.eviction_age.labels(signal).observe(age)

    def shutdown_times(self, start: Seconds, end: Seconds) -> None:
        """Set when the last graceful node shutdown began and ended, in Unix time; 0: unknown, or not yet."""
        self._own.shutdown_start.set(int(start))
        self._own.shutdown_end.set(int(end))

    def status_synced(self, seconds: Seconds) -> None:
        """Record the delay from a status change until the API server has it."""
        self._own.status_sync.observe(seconds)

    def history_failed(self) -> None:
        """Count a failure to read or write the history file."""
        self._own.history_failures.inc()


class ReloadCounts:
    """Counts reloads of the configuration by result, and shows what is pending.

    The Go kubelet had ``kubelet_node_config_error`` while the API server could change its configuration (KEP-281). The
    prefix ``kubelet_`` is for metrics that it has today, so that these have this project's.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Reloads of the configuration: applied, unchanged (nothing to apply) or refused."
        self._reloads = Counter("pykubelet_config_reloads_total", text, ("result",), registry=registry)
        for result in _RESULTS:
            self._reloads.labels(result)
        text = "Whether the present configuration files are refused."
        self._error = Gauge("pykubelet_config_error", text, registry=registry)
        text = "Configuration fields whose new value needs a restart of the agent."
        self._awaiting = Gauge("pykubelet_config_fields_awaiting_restart", text, registry=registry)

    def reloaded(self, result: str, *, awaiting_restart: int) -> None:
        """Count a reload; ``awaiting_restart``: the number of fields whose new value needs a restart."""
        self._reloads.labels(result).inc()
        self._error.set(result == "refused")
        self._awaiting.set(awaiting_restart)
