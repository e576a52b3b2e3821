"""Links that carry a SPDY connection: a socket's streams or a WebSocket."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from pykubelet.base.http.hangup import hung_up, vanished
from pykubelet.base.http.websocket_messages import Messages, say_goodbye

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

_CHUNK = 65536


class Link(Protocol):
    """A bidirectional byte stream."""

    async def read(self) -> bytes:
        """Read some bytes; none at the end. Raises ConnectionError if the connection is lost."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait while the peer is slow. Raises ConnectionError if the connection is lost."""
        ...

    async def end(self) -> None:
        """Close the sending direction. Reading continues if the carrier supports that."""
        ...

    def hung_up(self) -> bool:
        """Whether the peer has closed, even if data that it sent is still unread."""
        ...

    def vanished(self) -> bool:
        """Whether the peer takes nothing any more."""
        ...


class StreamLink:
    """A link over the streams of a socket, which the caller closes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Read some bytes; none at the end."""
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        """Send, and wait while the peer is slow."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Close the sending direction; TLS has no half-close."""
        if self._writer.can_write_eof():
            with suppress(OSError):
                self._writer.write_eof()

    def hung_up(self) -> bool:
        """Whether the peer has closed."""
        return hung_up(self._writer)

    def vanished(self) -> bool:
        """Whether the peer takes nothing any more."""
        return vanished(self._writer)


class WebSocketLink:
    """A link over a WebSocket whose binary messages carry the bytes (``SPDY/3.1+portforward.k8s.io``)."""

    def __init__(self, socket: "web.WebSocketResponse | aiohttp.ClientWebSocketResponse") -> None:
        self._socket = socket
        self._messages = Messages(socket)

    async def read(self) -> bytes:
        """Read some bytes; none at the end. Empty and text messages are skipped."""
        async for message in self._messages:
            if isinstance(message.data, bytes) and message.data:
                return message.data
        return b""

    async def write(self, data: bytes) -> None:
        """Send as one message, and wait while the peer is slow."""
        await self._socket.send_bytes(data)

    async def end(self) -> None:
        """Say that nothing more is sent; the peer's own goodbye is the end of what is read."""
        await say_goodbye(self._socket)

    def hung_up(self) -> bool:
        """Whether the peer has closed."""
        return hung_up(self._socket)

    def vanished(self) -> bool:
        """Whether the peer takes nothing any more."""
        return vanished(self._socket)
