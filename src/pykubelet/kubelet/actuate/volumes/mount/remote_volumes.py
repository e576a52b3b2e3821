"""Remote volumes: volumes of CSI drivers and NFS servers.

The remote volumes of a pod are set up concurrently, so that one that hangs does not delay the others.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet.base.errors import NotFound, PykubeletError, Transient, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.attachment import AttachPatience
from pykubelet.kubelet.actuate.volumes.mount import nfs
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_metrics import Measure
from pykubelet.kubelet.actuate.volumes.volume_source import CSI, NFS, Source
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.linux.filesystems import fsusage, mounts
from pykubelet.linux.filesystems.mountinfo import mounts_below
from pykubelet.models.core_v1 import Pod

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiVolumes

_log = logging.getLogger(__name__)

KINDS: Final = frozenset({CSI, NFS})
_DIRECTORY_MODE: Final = 0o750
_DIRECTORIES: Final = ("volumes/kubernetes.io~csi", "volumes/kubernetes.io~nfs", "volumeDevices")


def _device_sizes(path: str) -> VolumeSizes:
    """Capacity of a device. Blocks. Raises base errors."""
    try:
        with open(path, "rb") as device:
            return VolumeSizes(capacity=device.seek(0, os.SEEK_END))
    except OSError as error:
        raise Transient(f"size of the device {path} not read: {error}") from error


def _filesystem_sizes(path: str) -> VolumeSizes:
    """Capacity and usage of the file system that contains a path. Blocks. Raises base errors."""
    found = fsusage.filesystem(path)
    return VolumeSizes(
        capacity=found.capacity,
        available=found.available,
        used=found.used,
        inodes=found.inodes,
        inodes_free=found.inodes_free,
        inodes_used=found.inodes_used,
    )


class RemoteVolumes(Struct, frozen=True, kw_only=True):
    """Remote volumes of all pods. ``csi`` is None without an API server, which has the objects about drivers."""

    dirs: PodDirs
    blocking: BlockingJobs
    timeout: Seconds
    csi: "CsiVolumes | None" = None
    measure: Measure = Measure()

    def path(self, uid: PodUID, source: Source) -> Path:
        """Path of the volume."""
        if source.kind == CSI:
            assert self.csi is not None
            return self.csi.path(uid, source)
        return self.dirs.of_volumes.volume(uid, nfs.NAME, source.name)

    def is_due(self, pod: Pod, source: Source) -> bool:
        """Whether a volume that is set up has to be republished."""
        return source.kind == CSI and self.csi is not None and self.csi.is_due(pod, source)

    async def set_up(
        self, pod: Pod, sources: Mapping[str, Source], *, hurry: bool = False
    ) -> dict[str, PykubeletError | OSError]:
        """Set up volumes, by their names in the pod; return the errors by name.

        ``hurry``: another volume of the pod has failed, so that these do not wait long for their attachment.
        """
        patience = AttachPatience()
        if hurry:
            patience.hurry()
        found = await asyncio.gather(*(self._set_up(pod, source, patience) for source in sources.values()))
        return {name: error for name, error in zip(sources, found, strict=True) if error is not None}

    async def has_any(self, uid: PodUID) -> bool:
        """Whether the pod may have remote volumes, by directories on disk and operations in progress.

        Raises Transient if the disk is not responding.
        """
        pod = self.dirs.pod(uid)

        def on_disk() -> bool:
            return any((pod / directory).is_dir() for directory in _DIRECTORIES)

        found = await self.blocking.run(f"pod/{uid}/remote", on_disk)
        return found or (self.csi is not None and self.csi.has_volumes(uid))

    async def tear_down(self, uid: PodUID) -> None:
        """Have drivers release a pod's volumes, unmount NFS. Repeatable; raises Transient with what remains."""
        if self.csi is not None:
            await self.csi.tear_down(uid)
        directory = self.dirs.of_volumes.all(uid) / nfs.NAME.replace("/", "~")
        for mount in await self.blocking.run(f"pod/{uid}/nfs", lambda: mounts_below(str(directory))):
            await self._unmount_nfs(mount.path)

    async def _unmount_nfs(self, path: str) -> None:
        try:
            await self.blocking.run(f"volume/unmount {path}", lambda: mounts.unmount(path))
        except NotFound:
            return
        except Transient as error:
            # The pod has terminated; data not written to the server by now is lost, as in the Go kubelet.
            _log.warning("NFS server not responding: lazy unmount", extra={"path": path, "error": str(error)})
            with suppress(NotFound):
                await self.blocking.run(f"volume/detach {path}", lambda: mounts.detach(path))

    async def sizes(self, pod: Pod, source: Source, path: Path) -> VolumeSizes | None:
        """Capacity and usage from the driver or the file system; None if not available. Raises base errors."""
        if source.kind == CSI:
            return await self.csi.sizes(pod, source) if self.csi is not None else None
        read = _device_sizes if source.block else _filesystem_sizes
        return await self.blocking.run(f"volume/sizes {path}", lambda: read(str(path)))

    async def _set_up(self, pod: Pod, source: Source, patience: AttachPatience) -> PykubeletError | OSError | None:
        try:
            with self.measure.mounting(source):
                await self._do_set_up(pod, source, patience)
        except (PykubeletError, OSError) as error:
            patience.hurry()
            return error
        return None

    async def _do_set_up(self, pod: Pod, source: Source, patience: AttachPatience) -> None:
        if source.kind == NFS:
            await self._mount_nfs(ref_of(pod).uid, source)
        elif self.csi is None:
            raise Unsupported("CSI volumes need the CSIDriver objects of an API server, which this agent does not have")
        else:
            await self.csi.set_up(pod, source, patience)

    async def _mount_nfs(self, uid: PodUID, source: Source) -> None:
        target = self.dirs.of_volumes.volume(uid, nfs.NAME, source.name)

        def is_needed() -> bool:
            # Only the mount table is read: accessing the directory itself may hang.
            if mounts_below(str(target)):
                return False
            target.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            return True

        if await self.blocking.run(f"pod/{uid}/nfs/{source.name}", is_needed):
            await nfs.mount(source, target, self.timeout)
