"""Resource usage and metrics of containers and pods, read from the kernel on request; nothing is polled.

Called by the CRI calls in ``server.stats``. Imports of the server: ``config``, ``container``, ``sandbox``, ``storage``,
``types``. Start reading at ``collector.py`` (usage) and ``inspector.py`` with ``metrics.py``.
"""

from pykubelet.criserver.stats.collector import ContainerUsage, PodUsage, StatsCollector

__all__ = ["ContainerUsage", "PodUsage", "StatsCollector"]
