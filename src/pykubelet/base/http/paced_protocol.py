"""A protocol whose data arrives in small pieces, so that a peer that floods it leaves other tasks their turn.

asyncio reads 256 KiB at a time, and hands them over in one call: they may be tens of thousands of messages.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable


class PacedProtocol(asyncio.BufferedProtocol):
    """The protocol of a connection; ``size`` gives the bytes of the next piece."""

    def __init__(self, size: Callable[[], int]) -> None:
        self._size = size
        self._buffer = memoryview(b"")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next piece is to be read to; asyncio reads no more before the next iteration."""
        size = self._size()
        if len(self._buffer) != size:
            self._buffer = memoryview(bytearray(size))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass a piece on; called by the event loop."""
        self.data_received(bytes(self._buffer[:nbytes]))

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Handle a piece."""
