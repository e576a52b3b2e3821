"""Measures volume operations by plugin and operation; names as in the metrics of the Go kubelet."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final

from msgspec import Struct, field

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.mount import nfs
from pykubelet.kubelet.actuate.volumes.volume_source import CSI, NFS, Source
from pykubelet.kubelet.types.reports.work_meter import NoMeter, StoragePlugin, WorkMeter

CSI_PLUGIN: Final = "kubernetes.io/csi"
MOUNT: Final = "volume_mount"
UNMOUNT: Final = "volume_unmount"
RESIZE: Final = "volume_fs_resize"


def csi_plugin(driver: str) -> str:
    """Plugin name of a CSI driver's volumes."""
    return f"{CSI_PLUGIN}:{driver}"


class Measure(Struct, frozen=True):
    """Measures volume operations. ``names`` are the plugin names of the kinds that the node itself provides."""

    meter: WorkMeter = NoMeter()
    clock: Clock = SystemClock()
    names: Mapping[str, str] = field(default_factory=dict)

    def plugin(self, source: Source) -> str:
        """Plugin name of a volume; empty if its kind has none."""
        if source.kind == NFS:
            return nfs.NAME
        if source.kind != CSI:
            return self.names.get(source.kind, "")
        if source.pv is not None and source.pv.spec.csi is not None:
            return csi_plugin(source.pv.spec.csi.driver)
        return csi_plugin(source.volume.csi.driver) if source.volume.csi is not None else CSI_PLUGIN

    def _plugin(self, source: Source) -> StoragePlugin:
        return StoragePlugin(self.plugin(source), source.migrated)

    def mounting(self, source: Source) -> AbstractContextManager[None]:
        """Measure setting up the volume, or mapping the device, within the ``with`` block."""
        operation = "map_volume" if source.block else MOUNT
        return storage_work(self.meter, self.clock, self._plugin(source), operation)

    def unmounting(self, sources: list[Source]) -> AbstractContextManager[object]:
        """Measure tearing down the volumes of one pod within the ``with`` block."""
        stack = ExitStack()
        for source in sources:
            stack.enter_context(storage_work(self.meter, self.clock, self._plugin(source), UNMOUNT))
        return stack

    def resizing(self, source: Source) -> AbstractContextManager[None]:
        """Measure expanding the volume within the ``with`` block."""
        return storage_work(self.meter, self.clock, self._plugin(source), RESIZE)

    def mounted(self, sources: list[Source], since: Seconds) -> None:
        """Record volumes that were mounted for the first time; ``since`` is the monotonic time of the request."""
        for source in sources:
            self.meter.volume_mounted(self.plugin(source), self.clock.monotonic() - since)


@contextmanager
def storage_work(meter: WorkMeter, clock: Clock, plugin: StoragePlugin, operation: str) -> Iterator[None]:
    """Measure a storage operation in a ``with`` block; it has failed if the block ends with an exception."""
    begun, failed = clock.monotonic(), True
    try:
        yield
        failed = False
    finally:
        meter.storage_operation(plugin, operation, clock.monotonic() - begun, failed)
