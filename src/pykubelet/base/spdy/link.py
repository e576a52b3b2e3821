"""What carries a SPDY connection."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from pykubelet.base.hangup import hung_up

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

_CHUNK = 65536


class Link(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes:
        """Some bytes; none at the end. ConnectionError: broken off."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other side is slow. ConnectionError: broken off."""
        ...

    async def end(self) -> None:
        """Send no more. Reading goes on where the carrier can do that."""
        ...

    def hung_up(self) -> bool:
        """Whether the other side has closed, however much of what it sent was not read yet."""
        ...


class StreamLink:
    """A socket's streams, which stay the caller's to close."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Some bytes; none at the end."""
        return await self._reader.read(_CHUNK)

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other side is slow."""
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Close the direction to the other side; with TLS there is no such half."""
        if self._writer.can_write_eof():
            with suppress(OSError):
                self._writer.write_eof()

    def hung_up(self) -> bool:
        """Whether the other side has closed."""
        return hung_up(self._writer)


class WebSocketLink:
    """A WebSocket whose binary messages carry the bytes (``SPDY/3.1+portforward.k8s.io``)."""

    def __init__(self, socket: "web.WebSocketResponse | aiohttp.ClientWebSocketResponse") -> None:
        self._socket = socket

    async def read(self) -> bytes:
        """Some bytes; none at the end. Empty and textual messages are skipped."""
        async for message in self._socket:
            if isinstance(message.data, bytes) and message.data:
                return message.data
        return b""

    async def write(self, data: bytes) -> None:
        """Send as one message, and wait while the other side is slow."""
        await self._socket.send_bytes(data)

    async def end(self) -> None:
        """Close: a WebSocket has no half."""
        await self._socket.close()

    def hung_up(self) -> bool:
        """Whether the other side has closed."""
        return hung_up(self._socket)
