"""Metrics of operations of other stages: cgroups, sandboxes, volumes, resizes, hooks."""

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.kubelet.types.reports.work_meter import StoragePlugin

_STATUS = {False: "success", True: "fail-unknown"}


class OperationMetrics:
    """Implements ``types.work_meter.WorkMeter``. Called from any thread: the instruments lock themselves."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None:
        self._own.cgroup_duration.labels(operation).observe(seconds)

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None:
        self._own.sandbox_duration.labels(handler).observe(seconds)
        if failed:
            self._own.sandbox_errors.labels(handler).inc()

    def image_volumes(self, number: int, failed: bool) -> None:
        self._own.image_volumes_requested.inc(number)
        (self._own.image_volumes_failed if failed else self._own.image_volumes_mounted).inc(number)

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None:
        labels = plugin.name, operation, _STATUS[failed], "true" if plugin.migrated else "false"
        self._own.storage_duration.labels(*labels).observe(seconds)

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None:
        self._own.volume_duration.labels(plugin, "overall_volume_mount").observe(seconds)

    def pod_resized(self, seconds: Seconds, failed: bool) -> None:
        self._own.resize_duration.labels("false" if failed else "true").observe(seconds * 1000)

    def hook_fell_back(self) -> None:
        self._own.hook_fallbacks.inc()

    def hook_sleep_ended(self) -> None:
        self._own.hook_sleeps_ended.inc()
