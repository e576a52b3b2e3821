"""Keeps a part of a disk free for others while something is written to it. All functions block."""

import errno
import os
from typing import Final

from msgspec import Struct

from pykubelet.base.units import KIB, MIB, Bytes

_STEP: Final = 4 * MIB
_STEP_INODES: Final = 1024
"""The most that may be written before the free space of the disk is looked at again; on small disks it is less."""
_PER_INODE: Final = 16 * KIB
"""Bytes for each inode, as mke2fs creates them; gives the inodes of a reserve in bytes."""


class Reserve(Struct, frozen=True):
    """The part of a disk that stays free: a share of its space and inodes, and with ``most`` at most so many bytes."""

    share: float = 0.0
    most: Bytes = Bytes(0)

    def __str__(self) -> str:
        limit = f", at most {self.most // MIB} MiB," if self.most else ""
        return f"{self.share:.0%} of it{limit} are kept free"


OF_IMAGES: Final = Reserve(0.02, Bytes(512 * MIB))
"""Left free by pulls and imports: the records of both daemons, and all pods, may be on that disk."""


class Room:
    """The free space of the disk of ``place``, an open file or a path, less the reserve."""

    def __init__(self, place: int | str, reserve: Reserve) -> None:
        self._place = place
        self._reserve = reserve
        self._bytes = self._inodes = 0
        self._step, self._step_inodes = 0.0, 0.0  # the disk is looked at from the first byte on

    def take(self, size: int, *, inodes: int = 0) -> None:
        """Charge what will be written next. OSError: the disk would have less free than the reserve."""
        if not self._reserve.share:
            return
        self._bytes += size
        self._inodes += inodes
        if self._bytes < self._step and self._inodes < self._step_inodes:
            return
        disk, most = os.statvfs(self._place), self._reserve.most
        kept, kept_inodes = self._reserve.share * disk.f_blocks * disk.f_frsize, self._reserve.share * disk.f_files
        if most:
            kept, kept_inodes = min(kept, most), min(kept_inodes, most // _PER_INODE)
        lacks = size > disk.f_bavail * disk.f_frsize - kept
        if lacks or (disk.f_files and inodes > disk.f_favail - kept_inodes):
            raise OSError(errno.ENOSPC, f"the disk has no room; {self._reserve}")
        self._bytes = self._inodes = 0
        self._step, self._step_inodes = min(_STEP, kept / 4), min(_STEP_INODES, kept_inodes / 4 or _STEP_INODES)
