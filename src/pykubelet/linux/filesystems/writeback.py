"""Early write-back: let the disk write a file's data while more of them are produced, so that a later sync is short."""

import os
from contextlib import suppress

from pykubelet.base.units import MIB
from pykubelet.linux import libc

_STEP = 8 * MIB
"""Fewer bytes are left to the kernel, which writes small files better when it has many of them."""
_SYNC_FILE_RANGE_WRITE = 2


class WriteBack:
    """Starts the write-back of one file that is written from the current position on, without waiting for it.

    Errors of the disk are left to the sync that must follow.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pending = 0

    def wrote(self, count: int) -> None:
        """Note bytes that were written."""
        self._pending += count
        if self._pending >= _STEP:
            with suppress(OSError):  # not every file system supports it
                end = os.lseek(self._fd, 0, os.SEEK_CUR)
                libc.call("sync_file_range", self._fd, end - self._pending, self._pending, _SYNC_FILE_RANGE_WRITE)
            self._pending = 0
