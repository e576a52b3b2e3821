"""Prometheus metrics under the Go kubelet's names.

Each stage reports to a recorder in :class:`KubeletMetrics` (``kubelet_metrics.py``); the servers send their text.
Start reading in ``instruments.py`` for names, labels and buckets. Imports beside it: ``status``.
"""

from pykubelet.kubelet.report.metrics.kubelet_metrics import KubeletMetrics
from pykubelet.kubelet.report.metrics.metric_types import (
    NodeCounts,
    ProtectedMemory,
    count_ephemeral,
    count_runtime,
)
from pykubelet.kubelet.report.metrics.node_counts import CountsCollector
from pykubelet.kubelet.report.metrics.observation_metrics import PlegMetrics, ProbeMetrics, ProbeSample
from pykubelet.kubelet.report.metrics.usage_texts import UsageTexts

__all__ = [
    "CountsCollector",
    "KubeletMetrics",
    "NodeCounts",
    "PlegMetrics",
    "ProbeMetrics",
    "ProbeSample",
    "ProtectedMemory",
    "UsageTexts",
    "count_ephemeral",
    "count_runtime",
]
