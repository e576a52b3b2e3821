"""Metrics of what the agent decides about pods, and of the steps of their workers."""

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.kubelet.report.metrics.metric_types import rejection_label


class PodMetrics:
    """Recorder of admission, resizes, pod workers and housekeeping."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def admission_rejected(self, reason: str) -> None:
        """Count a pod rejected at admission."""
        self._own.admission_rejections.labels(rejection_label(reason)).inc()

    def preempted(self, signal: str) -> None:
        """Count a pod preempted for that resource."""
        self._own.preemptions.labels(signal).inc()

    def resize_accepted(self, trigger: str) -> None:
        """Count a deferred resize that was accepted; ``trigger`` is what made the node retry it."""
        self._own.accepted_resizes.labels(trigger).inc()

    def worker_started(self, seconds: Seconds) -> None:
        """Record the delay from seeing a pod to starting its worker."""
        self._own.worker_start_duration.observe(seconds)

    def worker_duration(self, operation: str, seconds: Seconds) -> None:
        """Record a pod worker's step; ``operation`` is create, update, sync, kill or terminated."""
        self._own.worker_duration.labels(operation).observe(seconds)

    def pod_restarted(self, *, static: bool) -> None:
        """Count a pod that was added again with the same uid while it was terminating."""
        self._own.restarted_pods.labels("true" if static else "").inc()

    def pod_orphaned(self) -> None:
        """Count a pod found in the runtime that no source wants."""
        self._own.orphaned_pods.inc()

    def orphans_swept(self, pods: int, failed: int) -> None:
        """Record the cleanup of orphaned pod directories by housekeeping: how many, and how many failed."""
        self._own.orphans_cleaned.set(pods)
        self._own.orphans_left.set(failed)
