"""Hard eviction thresholds in force: those of the configuration and their defaults. Pure.

Two stages need them: eviction itself, and node allocatable, which leaves the threshold free.
"""

import struct
from collections.abc import Mapping
from typing import Final

MEMORY_SIGNAL: Final = "memory.available"
NODEFS_SIGNAL: Final = "nodefs.available"

DEFAULT_HARD: Final[Mapping[str, str]] = {
    MEMORY_SIGNAL: "100Mi",
    NODEFS_SIGNAL: "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""Defaults of ``evictionHard`` by signal (KubeletConfiguration v1beta1, on Linux)."""


def hard_thresholds(configured: Mapping[str, str], *, merge_defaults: bool) -> Mapping[str, str]:
    """Return the hard eviction thresholds in force, by signal.

    The defaults hold only if none is configured, or, with ``merge_defaults`` (``mergeDefaultEvictionSettings``), for
    each signal that is not configured.
    """
    if not configured or merge_defaults:
        return {**DEFAULT_HARD, **configured}
    return configured


def percentage(text: str) -> float:
    """Return the share that a percentage (``10%``) stands for, as the 32-bit float that the Go kubelet keeps.

    Its product with a capacity differs from the exact one: 10% of 100 GiB is 160 bytes more than a tenth. Raises
    ValueError if the text is not a number, OverflowError if it is too large.
    """
    return _float32(_float32(float(text.rstrip("%"))) / 100)


def _float32(number: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded
