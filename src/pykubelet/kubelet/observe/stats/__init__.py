"""Usage of the machine, its pods and their containers, measured on demand.

The kubelet API server (/stats/summary, /metrics/cadvisor, /metrics/resource), the local API and eviction read it.
Imports ``linux``, and no other stage. Start reading in ``node_usage.py``.
"""

from pykubelet.kubelet.observe.stats.node_usage import NodeUsage
from pykubelet.kubelet.observe.stats.stats_interfaces import StatsConfig, StatsDeps, UsageCri, VolumeReader

__all__ = ["NodeUsage", "StatsConfig", "StatsDeps", "UsageCri", "VolumeReader"]
