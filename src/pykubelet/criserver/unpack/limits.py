"""What a layer may cost at most, and what is raised when it is bad. Shared by the worker and by those who start it."""

from dataclasses import dataclass

from pykubelet.base.errors import Invalid
from pykubelet.base.units import GIB, KIB, MIB, Bytes


class BadLayer(Invalid):
    """The stream is no layer that we accept, and will not become one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps for one layer. They stop bombs; no image of good faith comes near them."""

    max_bytes: Bytes = Bytes(128 * GIB)
    """Of the uncompressed stream."""
    max_ratio: int = 600
    """Uncompressed to compressed, looked at after ``ratio_from`` bytes. Deflate reaches 1032 with zeros alone.

    What is written to the disk may not be more either: hard links and parts of sparse files need few bytes.
    """
    ratio_from: Bytes = Bytes(256 * MIB)
    max_entries: int = 4_000_000
    max_inodes: int = 5_000_000
    """Directories that no entry names, and those that are copied up from layers below, are files too."""
    max_name: int = 4095
    """Bytes of a path or of a link's target, as PATH_MAX."""
    max_header: Bytes = Bytes(1 * MIB)
    """Of one extended header; xattr values live there."""
    max_xattr: Bytes = Bytes(64 * KIB)
    """Of one value, as XATTR_SIZE_MAX."""
