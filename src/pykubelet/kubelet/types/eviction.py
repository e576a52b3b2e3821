"""Hard eviction thresholds in force: those of the configuration and their defaults. Pure.

Two stages need them: eviction itself, and node allocatable, which leaves the threshold free.
"""

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
