"""Metrics that are measured at the scrape: the text of cgroup readings and of disk usage."""

from pykubelet.kubelet.report.metrics.plan.cadvisor import cadvisor_text
from pykubelet.kubelet.report.metrics.plan.disks import disks_text
from pykubelet.kubelet.report.metrics.plan.resource import resource_text
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.kubelet.types.resources.usage import Readings


class UsageTexts:
    """Renders measurements in Prometheus' text format."""

    def cadvisor(self, readings: Readings) -> bytes:
        """Return the text of /metrics/cadvisor. Takes a while for many containers: call it in a thread."""
        return cadvisor_text(readings)

    def resource(self, readings: Readings | None) -> bytes:
        """Return the text of /metrics/resource; None: the readings could not be taken."""
        return resource_text(readings)

    def disks(self, summary: Summary) -> bytes:
        """Return the series of /metrics about container logs and volumes."""
        return disks_text(summary)
