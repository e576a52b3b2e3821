"""Pieces in which a connection's data is handed to aiohttp's parser, so that one client leaves others their turn.

asyncio hands over 256 KiB at a time. A body of so many chunks of one byte keeps the parser busy for 46 ms, and forty
clients that send one kept a server's event loop from everything else for twelve seconds.
"""

import asyncio
from collections.abc import Callable

from aiohttp.web_protocol import RequestHandler


class PacedReads(asyncio.BufferedProtocol):
    """The protocol of a connection in front of its handler; ``size`` gives the bytes of the next piece."""

    def __init__(self, handler: RequestHandler, size: Callable[[], int]) -> None:
        self._handler = handler
        self._size = size
        self._buffer = memoryview(b"")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection to the handler."""
        self._handler.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next piece is to be read to; asyncio reads no more before the next iteration."""
        size = self._size()
        if len(self._buffer) != size:
            self._buffer = memoryview(bytearray(size))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand a piece to the handler."""
        self._handler.data_received(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> None:
        """Tell the handler that the client sends nothing more; the connection is closed."""
        self._handler.eof_received()

    def pause_writing(self) -> None:
        """Tell the handler that the client does not read."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Tell the handler that the client reads again."""
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the handler that the connection has ended."""
        self._handler.connection_lost(exc)
