"""How fast the trash is deleted: with little of the machine, unless its space is needed soon. Pure."""

from dataclasses import dataclass

from pykubelet.base.units import Bytes

_FREE_BYTES = 0.2
_FREE_INODES = 0.1
"""Shares of the file system. Kubelets evict pods at 15 % and 5 % by default, so that deletion speeds up before."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a worker deletes."""

    niceness: int
    """As of nice(1); the I/O priority follows it."""
    rest: float
    """How long the worker rests after a piece of work, as a multiple of the time of the work."""


CALM = Pace(niceness=19, rest=1.0)
HURRIED = Pace(niceness=0, rest=0.0)


def pace(capacity: Bytes, available: Bytes, inodes: int, inodes_free: int) -> Pace:
    """The pace for a file system in this state. ``inodes`` is 0 for file systems without a fixed number."""
    short = available < capacity * _FREE_BYTES or inodes_free < inodes * _FREE_INODES
    return HURRIED if short else CALM
