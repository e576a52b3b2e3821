"""What stages tell of the work they do, for the metrics. Named after the reference's metrics, without their prefix."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class StoragePlugin:
    """What kind of volume an operation is about."""

    name: str
    """The reference's, for CSI with the driver's: ``kubernetes.io/csi:DRIVER``."""
    migrated: bool = False
    """The volume was left to the driver, though it is not one of its own."""


class WorkMeter(Protocol):
    """Told after each piece of work; any thread may call it."""

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None:
        """``cgroup_manager_duration_seconds``: create, update or destroy."""

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None:
        """``run_podsandbox_duration_seconds`` and its errors, by the runtime's handler."""

    def image_volumes(self, number: int, failed: bool) -> None:
        """``image_volume_…_total``: a container with that many was made, or could not be for their sake."""

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None:
        """``storage_operation_duration_seconds``."""

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None:
        """``volume_operation_total_seconds``: from the first wish for a volume until it is there."""

    def pod_resized(self, seconds: Seconds, failed: bool) -> None:
        """``pod_resize_duration_milliseconds``: one attempt to apply another size to what runs."""

    def hook_fell_back(self) -> None:
        """``lifecycle_handler_http_fallbacks_total``."""

    def hook_sleep_ended(self) -> None:
        """``sleep_action_terminated_early_total``."""


class NoMeter:
    """Tells nobody."""

    def cgroup_operation(self, operation: str, seconds: Seconds) -> None: ...

    def sandbox(self, handler: str, seconds: Seconds, failed: bool) -> None: ...

    def image_volumes(self, number: int, failed: bool) -> None: ...

    def storage_operation(self, plugin: StoragePlugin, operation: str, seconds: Seconds, failed: bool) -> None: ...

    def volume_mounted(self, plugin: str, seconds: Seconds) -> None: ...

    def pod_resized(self, seconds: Seconds, failed: bool) -> None: ...

    def hook_fell_back(self) -> None: ...

    def hook_sleep_ended(self) -> None: ...


@contextmanager
def storage_work(meter: WorkMeter, clock: Clock, plugin: StoragePlugin, operation: str) -> Iterator[None]:
    """A storage operation is done within the ``with`` block, and has failed if that ends with an error."""
    begun, failed = clock.monotonic(), True
    try:
        yield
        failed = False
    finally:
        meter.storage_operation(plugin, operation, clock.monotonic() - begun, failed)
