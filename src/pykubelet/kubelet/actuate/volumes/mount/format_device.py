"""Mounts block devices, and formats empty ones first; an existing file system is checked and never replaced.

`blkid` detects whether a device is empty.
"""

import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base import proc
from pykubelet.base.errors import Conflict, Permanent, Unsupported
from pykubelet.base.units import Seconds

DEFAULT_TYPE: Final = "ext4"
_SEARCH_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
_NOTHING_FOUND: Final = 2
_UNCORRECTED: Final = 4
"""Bit of the exit code of `fsck`: errors left uncorrected; 1 means corrected."""
_EXT_TYPES: Final = ("ext2", "ext3", "ext4")
_PACKAGES: Final = {"blkid": "util-linux", "mount": "util-linux", "fsck": "util-linux", "mkfs.xfs": "xfsprogs"}


class Device(Struct, frozen=True):
    """Device to mount."""

    path: str
    fs_type: str = DEFAULT_TYPE
    options: tuple[str, ...] = ()
    read_only: bool = False


class Formatter(Struct, frozen=True):
    """Formats and mounts devices. ``search_path`` is where the programs are looked up."""

    timeout: Seconds
    search_path: str = _SEARCH_PATH

    async def mount(self, device: Device, target: Path) -> None:
        """Mount the device on an existing directory. Raises base errors."""
        found = await self._probe(device.path)
        if not found:
            if device.read_only:
                raise Conflict(f"cannot mount unformatted disk {device.path} as it is to be read-only")
            await self._make(device)
        elif found != device.fs_type:
            raise Conflict(
                f"cannot mount {device.path}: it holds {found!r}, not {device.fs_type!r}; clear it with wipefs -a"
            )
        elif not device.read_only and device.fs_type in _EXT_TYPES:
            await self._check(device)
        options = (*device.options, *(["ro"] if device.read_only else []), "defaults")
        arguments = ("-t", device.fs_type, "-o", ",".join(dict.fromkeys(options)), device.path, str(target))
        await proc.run([self._program("mount"), *arguments], timeout=self.timeout)

    async def _probe(self, path: str) -> str:
        """Type of the file system on a device; empty for an empty device. A partition table counts as content."""
        command = [self._program("blkid"), "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", path]
        done = await proc.run(command, timeout=self.timeout, check=False)
        if done.returncode == _NOTHING_FOUND:
            return ""
        said = done.stdout.decode(errors="replace")
        values = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        if done.returncode or not values.keys() & {"TYPE", "PTTYPE"}:
            raise Permanent(
                f"cannot detect the content of {path}: blkid: {done.stderr.decode(errors='replace').strip()}"
            )
        return values.get("TYPE") or "unknown data, probably partitions"

    async def _make(self, device: Device) -> None:
        force = ["-F", "-m0"] if device.fs_type in _EXT_TYPES else ["-f"] if device.fs_type == "xfs" else []
        await proc.run([self._program(f"mkfs.{device.fs_type}"), *force, device.path], timeout=self.timeout)

    async def _check(self, device: Device) -> None:
        done = await proc.run([self._program("fsck"), "-a", device.path], timeout=self.timeout, check=False)
        if done.returncode & _UNCORRECTED:
            said = done.stdout.decode(errors="replace").strip()
            raise Permanent(f"'fsck' found errors on device {device.path} but could not correct them: {said}")

    def _program(self, name: str) -> str:
        found = shutil.which(name, path=self.search_path)
        if found is None:
            package = _PACKAGES.get(name, "e2fsprogs")
            raise Unsupported(f"{name} is not installed on this node; on Debian: apt-get install {package}")
        return found
