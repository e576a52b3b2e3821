"""Pieces in which a connection's data is handed to aiohttp's parser, so that one client leaves others their turn.

A body of 256 KiB in chunks of one byte keeps the parser busy for 46 ms, and forty clients that send one kept a server's
event loop from everything else for twelve seconds.
"""

import asyncio
from collections.abc import Callable

from aiohttp.web_protocol import RequestHandler

from pykubelet.base.http.paced_protocol import PacedProtocol


class PacedReads(PacedProtocol):
    """The protocol of a connection in front of its handler; ``size`` gives the bytes of the next piece."""

    def __init__(self, handler: RequestHandler, size: Callable[[], int]) -> None:
        super().__init__(size)
        self._handler = handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand the connection to the handler."""
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Hand a piece to the handler."""
        self._handler.data_received(data)

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
