"""Usage of the machine, its pods and their containers, measured on demand.

The kubelet API server (/stats/summary, /metrics/cadvisor, /metrics/resource), the local API and eviction read it.
Imports ``linux``, and no other stage. Start reading in ``manager.py``.
"""

from pykubelet.kubelet.observe.stats.interfaces import StatsConfig, StatsDeps, UsageCri, VolumeReader
from pykubelet.kubelet.observe.stats.manager import NodeUsage

__all__ = ["NodeUsage", "StatsConfig", "StatsDeps", "UsageCri", "VolumeReader"]
