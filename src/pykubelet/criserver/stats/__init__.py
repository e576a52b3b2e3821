"""How much containers and pods use, read from the kernel when somebody asks; nothing is polled."""

from pykubelet.criserver.stats.collector import ContainerUsage, PodUsage, StatsCollector

__all__ = ["ContainerUsage", "PodUsage", "StatsCollector"]
