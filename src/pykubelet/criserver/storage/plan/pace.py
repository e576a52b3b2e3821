"""The pace at which the trash is deleted: with little of the machine, unless its space is needed soon. Pure."""

from msgspec import Struct

from pykubelet.base.units import Bytes, Seconds

_FREE_BYTES = 0.2
_FREE_INODES = 0.1
"""Shares of the file system below which the deletion speeds up, before a kubelet evicts pods."""
_SHORT_BYTES = 0.15
_SHORT_INODES = 0.05
"""The default thresholds at which kubelets evict pods."""
LONGEST_WAIT: Seconds = 20.0
"""A fraction of the time that kubelets wait for a call (120 s by default)."""


class DeletionPace(Struct, frozen=True):
    """The pace at which a worker deletes."""

    niceness: int
    """As of nice(1); the I/O priority follows it."""
    rest: float
    """Pause of the worker after a piece of work, as a multiple of the time of the work."""
    wait: Seconds = 0.0
    """Longest wait of a removal for the deletion: a kubelet that needs space measures it after the removal, and would
    evict another pod."""


CALM = DeletionPace(niceness=19, rest=1.0)
HURRIED = DeletionPace(niceness=0, rest=0.0)
PRESSED = DeletionPace(niceness=0, rest=0.0, wait=LONGEST_WAIT)


def pace(capacity: Bytes, available: Bytes, inodes: int, inodes_free: int) -> DeletionPace:
    """The pace for a file system in this state. ``inodes`` is 0 for file systems without a fixed number."""
    if available < capacity * _SHORT_BYTES or inodes_free < inodes * _SHORT_INODES:
        return PRESSED
    if available < capacity * _FREE_BYTES or inodes_free < inodes * _FREE_INODES:
        return HURRIED
    return CALM
