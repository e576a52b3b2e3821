"""Prometheus metrics under the Go kubelet's names.

All stages report to :class:`KubeletMetrics` (``manager.py``) through callbacks; the servers of this stage render the
text. Start reading in ``instruments.py`` for names, labels and buckets.
"""

from pykubelet.kubelet.report.metrics.compute_cadvisor import cadvisor_text
from pykubelet.kubelet.report.metrics.compute_disks import disks_text
from pykubelet.kubelet.report.metrics.compute_resource import resource_text
from pykubelet.kubelet.report.metrics.manager import CONTENT_TYPE, CountsCollector, KubeletMetrics, ProbeSample
from pykubelet.kubelet.report.metrics.slis import HealthSlis
from pykubelet.kubelet.report.metrics.types import Lifecycle, NodeCounts, PodConfig, WorkingPods, count_runtime

__all__ = [
    "CONTENT_TYPE",
    "CountsCollector",
    "HealthSlis",
    "KubeletMetrics",
    "Lifecycle",
    "NodeCounts",
    "PodConfig",
    "ProbeSample",
    "WorkingPods",
    "cadvisor_text",
    "count_runtime",
    "disks_text",
    "resource_text",
]
