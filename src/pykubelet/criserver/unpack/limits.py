"""Limits of a layer, and the error for a bad one. Used by the worker and by the server that starts it."""

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.units import GIB, KIB, MIB, Bytes


class BadLayer(Invalid):
    """The stream is not an acceptable layer, and a retry will not help."""


class Limits(Struct, frozen=True):
    """Limits of one layer. They stop decompression bombs; real images stay far below them."""

    max_bytes: Bytes = Bytes(128 * GIB)
    """Size of the uncompressed stream."""
    max_ratio: int = 600
    """Ratio of uncompressed to compressed size, checked after ``ratio_from`` bytes. Deflate reaches 1032 with zeros.

    The disk usage has the same limit: hard links and segments of sparse files take few bytes of the stream.
    """
    ratio_from: Bytes = Bytes(256 * MIB)
    max_entries: int = 4_000_000
    max_inodes: int = 5_000_000
    """Limit of files; implicit directories, and those copied up from layers below, count too."""
    max_name: int = 4095
    """Length of a path or of a link's target in bytes, as PATH_MAX."""
    max_header: Bytes = Bytes(1 * MIB)
    """Size of one extended header, which contains the xattr values."""
    max_xattr: Bytes = Bytes(64 * KIB)
    """Size of one xattr value, as XATTR_SIZE_MAX."""
    only_files: bool = False
    """Whether anything but regular files and directories is refused."""
    reserve: float = 0.0
    """Share of the disk's space and inodes that stays free."""
    reserve_most: Bytes = Bytes(0)
    """The most that stays free; 0: no limit."""
    lock: str = ""
    """The file or directory that a worker locks before it takes more memory than ``memory_alone``; empty: no limit."""
    memory_alone: Bytes = Bytes(256 * MIB)
    """Only one worker at a time takes more."""
