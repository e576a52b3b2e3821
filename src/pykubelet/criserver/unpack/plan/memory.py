"""The memory that each of several workers may take. Pure."""

from typing import Final

from pykubelet.base.units import MIB, Bytes

_PART: Final = 64
"""Fifteen workers run at a time: five pulls, of three layers each. Together they take a quarter of the memory."""
_LEAST: Final = Bytes(64 * MIB)
"""Libraries take 25 MiB, and a hundred thousand directories of common names as much."""
_MOST: Final = Bytes(256 * MIB)
"""Libraries, a large window of zstd, and half a million directories."""


def memory_of_worker(total: Bytes) -> Bytes:
    """The memory that a worker may take beside others, on a machine that has ``total``."""
    return Bytes(max(_LEAST, min(_MOST, total // _PART)))
