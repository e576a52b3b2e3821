"""Limits of all streaming sessions: their number, and the memory for their buffers.

A client may send more than the container or the pod reads. Each session gets a share of a fixed amount of memory, the
smaller the more sessions there are, and all limits of the session follow from its share.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.base.spdy import Bounds
from pykubelet.base.units import KIB, MIB, Bytes
from pykubelet.criserver.memory_shares import MemoryShares

MOST: Final = 1024
"""Sessions at a time."""
_TOTAL: Final = 192 * MIB
"""Memory of all sessions."""
_LARGEST: Final = 8 * MIB
_SMALLEST: Final = 128 * KIB
"""Smallest share, given even if no memory is free."""


class SessionLimits:
    """Counts the active sessions and divides the memory among them."""

    def __init__(self, total: int = _TOTAL, most: int = MOST) -> None:
        self._memory = MemoryShares(total=total, smallest=_SMALLEST, largest=_LARGEST)
        self._most = most
        self.taken = 0
        """Number of active sessions."""

    @contextmanager
    def reserve(self) -> Iterator[Bytes]:
        """Reserve bytes of memory for a session for the time of the block. Transient: there are too many sessions."""
        if self.taken >= self._most:
            raise Transient(
                f"{self._most} streaming sessions are open, which is the limit; end some, or try again later"
            )
        with self._memory.reserve() as size:
            self.taken += 1
            try:
                yield size
            finally:
                self.taken -= 1


def bounds(share: Bytes) -> Bounds:
    """The limits of a SPDY connection with this share of memory."""
    usual = Bounds()
    half = share // 2
    return Bounds(
        held=min(usual.held, half // 4),
        held_total=min(usual.held_total, half),
        queued=min(usual.queued, half // 4),
        queued_at_most=min(usual.queued_at_most, half),
    )


def longest_message(share: Bytes) -> Bytes:
    """The message size limit of a WebSocket, which holds up to two messages: one arriving, one unread."""
    return Bytes(share // 2)
