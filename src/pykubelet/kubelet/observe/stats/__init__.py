"""Node and pod statistics: what the machine, its pods and their containers use, read on demand.

Asked by the node's server (/stats/summary, /metrics/cadvisor, /metrics/resource) and by the local API; built by
``main.py``.
"""

from pykubelet.kubelet.observe.stats.interfaces import StatsConfig, StatsDeps, UsageCri, VolumeReader
from pykubelet.kubelet.observe.stats.manager import NodeUsage

__all__ = ["NodeUsage", "StatsConfig", "StatsDeps", "UsageCri", "VolumeReader"]
