"""Metrics of reloads."""

import prometheus_client
from prometheus_client import CollectorRegistry

from pykubelet.kubelet.report.metrics.node_metrics import ReloadCounts


def test_reloads_are_counted_and_what_is_pending_is_shown() -> None:
    registry = CollectorRegistry()
    counts = ReloadCounts(registry)
    assert registry.get_sample_value("pykubelet_config_reloads_total", {"result": "refused"}) == 0
    counts.reloaded("applied", awaiting_restart=2)
    counts.reloaded("refused", awaiting_restart=2)
    text = prometheus_client.generate_latest(registry).decode()
    assert 'pykubelet_config_reloads_total{result="applied"} 1.0' in text
    assert 'pykubelet_config_reloads_total{result="refused"} 1.0' in text
    assert "pykubelet_config_error 1.0" in text
    assert "pykubelet_config_fields_awaiting_restart 2.0" in text
    counts.reloaded("unchanged", awaiting_restart=0)
    assert registry.get_sample_value("pykubelet_config_error") == 0
