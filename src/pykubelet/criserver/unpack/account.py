"""Accounting of a layer's disk usage: charged before it is written, refused beyond the limits. Runs in the worker.

The charge is at least what the file system uses: whole blocks of data, a block for each directory and for each set of
attributes, the space of names in directories, and everything that overlayfs copies up from the layers below.
"""

import errno
import os

from pykubelet.criserver.unpack.files import DEFAULT_ACL
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.plan.sparse import Segments
from pykubelet.criserver.unpack.room import Reserve, Room
from pykubelet.criserver.unpack.tarstream import EntryKind

BLOCK = 4096
_OF_NAME = 16
"""Bytes of a directory entry besides its name."""
_EXTENTS_IN_BLOCK = 256
_FAST_LINK = 59
"""Bytes of a symbolic link's target that fit into the inode."""


class Account:
    """The bytes and inodes charged to one layer; ``compressed`` is the size of its blob."""

    def __init__(self, limits: Limits, compressed: int) -> None:
        self._max_bytes = min(limits.max_bytes, max(limits.ratio_from, limits.max_ratio * compressed))
        self._max_inodes = limits.max_inodes
        self.bytes = BLOCK  # the root
        self.inodes = 1
        # The disk of the current directory is the one that is written to.
        self._room = Room(".", Reserve(limits.reserve, limits.reserve_most))

    def inode(self, name: str, *, blocks: int = 0) -> None:
        """Charge a new file of any type, its name, and additional blocks."""
        self.inodes += 1
        if self.inodes > self._max_inodes:
            raise BadLayer(f"the layer creates more than {self._max_inodes} files")
        self._room.take(0, inodes=1)
        self.name(name)
        self.blocks(blocks)

    def name(self, name: str) -> None:
        """Charge one more name in a directory; the directories of ext4 are at least half full."""
        self._add(2 * (4 * len(name) if not name.isascii() else len(name)) + 2 * _OF_NAME)

    def link(self, target: str) -> None:
        """Charge the target of a symbolic link."""
        self.blocks(int(len(target) > _FAST_LINK or not target.isascii()))

    def blocks(self, count: int) -> None:
        """Charge blocks of data."""
        self._add(count * BLOCK)

    def data(self, size: int) -> None:
        """Charge the content of a file."""
        self.blocks(-(-size // BLOCK))

    def segments(self, segments: Segments) -> None:
        """Charge the segments of a sparse file, and the file system's list of them."""
        touched = sum(-(-(offset + length) // BLOCK) - offset // BLOCK for offset, length in segments if length)
        self.blocks(touched + len(segments) // _EXTENTS_IN_BLOCK)

    def xattrs(self, found: dict[str, bytes]) -> None:
        """Charge the extended attributes of one file."""
        if found:
            self.data(sum(_OF_NAME + len(key) + len(value) for key, value in found.items()))

    def _add(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._max_bytes:
            raise BadLayer(
                f"the layer takes more than {self._max_bytes} bytes on the disk, out of proportion to its blob; "
                "it looks like a bomb"
            )
        self._room.take(size)

    def writing(self, size: int) -> None:
        """Look again whether the disk has room: others may have filled it since the file was charged. OSError."""
        self._room.take(size)


def blocks_of(kind: EntryKind, path: str, *, merged: bool) -> int:
    """The blocks that a new file takes before it has content or attributes of its own.

    With ``merged`` a directory may be a copy of one below, with its attributes, and everything but a link inherits the
    default ACL of its directory. That one is asked for each file, since a link may lead to another directory by now.
    """
    if kind is EntryKind.DIRECTORY:
        return 1 + int(merged)
    if not merged or kind is EntryKind.SYMLINK:
        return 0
    try:
        os.getxattr(path.rpartition("/")[0] or "/", DEFAULT_ACL)
    except OSError as error:
        return int(error.errno not in (errno.ENODATA, errno.EOPNOTSUPP))
    return 1
