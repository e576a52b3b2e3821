"""Metrics of reloads of the configuration.

The Go kubelet had ``kubelet_node_config_error`` while the API server could change its configuration (KEP-281). The
prefix ``kubelet_`` is for metrics that it has today, so that these have this project's.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

_RESULTS: Final = ("applied", "unchanged", "refused")


class ReloadCounts:
    """Counts reloads by result, and shows what is pending."""

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
