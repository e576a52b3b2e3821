"""The meter of operations that the stages report for the metrics. Methods are named after metrics of the Go kubelet."""

from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Seconds


class StoragePlugin(Struct, frozen=True):
    """The volume plugin of an operation."""

    name: str
    """Name as in the Go kubelet; for CSI with that of the driver: ``kubernetes.io/csi:DRIVER``."""
    migrated: bool = False
    """The CSI driver handles a volume of an in-tree plugin."""


class WorkMeter(Protocol):
    """The receiver of measurements, called after each operation; any thread may call it."""

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None:
        """``cgroup_manager_duration_seconds``: create, update or destroy."""

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None:
        """``run_podsandbox_duration_seconds`` and its errors, by runtime handler."""

    def image_volumes(self, number: int, failed: bool) -> None:
        """``image_volume_…_total``: a container with this number of image volumes was created, or failed because of
        them."""

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None:
        """``storage_operation_duration_seconds``."""

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None:
        """``volume_operation_total_seconds``: from the first request for a volume until it is mounted."""

    def pod_resized(self, seconds: Seconds, failed: bool) -> None:
        """``pod_resize_duration_milliseconds``: one attempt to apply a resize to running containers."""

    def hook_fell_back(self) -> None:
        """``lifecycle_handler_http_fallbacks_total``."""

    def hook_sleep_ended(self) -> None:
        """``sleep_action_terminated_early_total``."""


class NoMeter:
    """A meter that discards all measurements."""

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None: ...

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None: ...

    def image_volumes(self, number: int, failed: bool) -> None: ...

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None: ...

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None: ...

    def pod_resized(self, seconds: Seconds, failed: bool) -> None: ...

    def hook_fell_back(self) -> None: ...

    def hook_sleep_ended(self) -> None: ...
