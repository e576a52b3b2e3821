"""Block devices behind local volumes with a file system: mounted once for the node, however many pods use them.

There is no state in memory: the kernel's mount table shows which devices are in use.
"""

import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.kubelet.actuate.volumes.mount.format_device import DEFAULT_TYPE, Device, Formatter
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs, component
from pykubelet.kubelet.actuate.volumes.volume_source import LOCAL, Source
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import at_or_below, is_mount_point
from pykubelet.linux.filesystems.mountinfo import mounts as all_mounts

_DIRECTORY: Final = "plugins/kubernetes.io/local-volume/mounts"
_DIRECTORY_MODE: Final = 0o750


def mounted_at(root: Path, name: str) -> Path:
    """Mount point of a PersistentVolume's device below the agent's root directory."""
    return root / _DIRECTORY / component(name)


class LocalDevices(Struct, frozen=True, kw_only=True):
    """Block devices of the node's local volumes."""

    dirs: PodDirs
    blocking: BlockingJobs
    formatter: Formatter

    async def set_up(self, source: Source) -> None:
        """Mount the device of a local volume; other volumes are ignored. Repeatable. Raises base errors, OSError."""
        if source.kind != LOCAL or source.block or source.pv is None or source.pv.spec.local is None:
            return
        path, spec = source.pv.spec.local.path, source.pv.spec
        target = mounted_at(self.dirs.root, source.name)

        def is_needed() -> bool:
            if not stat.S_ISBLK(Path(path).stat().st_mode) or is_mount_point(target):
                return False
            target.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            return True

        key = f"volume/local {source.name}"
        if await self.blocking.run(key, is_needed):
            assert spec.local is not None
            fs_type = spec.local.fs_type or DEFAULT_TYPE
            read_only = "ro" in spec.mount_options
            await self.formatter.mount(Device(path, fs_type, tuple(spec.mount_options), read_only), target)

    async def release(self, wanted: frozenset[str]) -> None:
        """Unmount devices that no pod uses and that are not in ``wanted`` (names of PersistentVolumes).

        Raises base errors, OSError.
        """
        directory = self.dirs.root / _DIRECTORY
        await self.blocking.run("volume/local", lambda: self._release(directory, wanted))

    def _release(self, directory: Path, wanted: frozenset[str]) -> None:
        if not directory.is_dir():
            return
        table = all_mounts()
        used = {mount.device for mount in at_or_below(table, str(self.dirs.pods))}
        for mount in at_or_below(table, str(directory)):
            if mount.device not in used and Path(mount.path).name not in wanted:
                mounts.unmount(mount.path)
                Path(mount.path).rmdir()
