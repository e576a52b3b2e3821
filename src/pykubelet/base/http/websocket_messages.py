"""The messages of a WebSocket, read so that a peer that floods it leaves other tasks their turn.

aiohttp returns messages that have arrived already, and answers pings, without a return to the event loop. One read of a
socket can bring 40,000 messages; a few clients that send such messages would keep everything else waiting for seconds.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

AT_ONCE: Final = 64
"""Messages that are read before the event loop runs other tasks."""
_PING: Final = 0x9
_PONG: Final = 0xA
"""Opcodes of RFC 6455, section 5.2, which are also the numbers of aiohttp's message types."""


class Messages:
    """An iterator over the messages until the peer has gone; it answers the peer's pings.

    A server's WebSocket needs ``autoping=False``: else aiohttp itself reads any number of pings in one go. A read that
    is cancelled loses no message.
    """

    def __init__(self, socket: "web.WebSocketResponse | aiohttp.ClientWebSocketResponse") -> None:
        self._socket = socket
        self._count = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "aiohttp.WSMessage":
        while True:
            if self._count >= AT_ONCE:
                self._count = 0
                await asyncio.sleep(0)
            message = await anext(self._socket)
            self._count += 1
            if message.type == _PING:
                await self._socket.pong(message.data)
            elif message.type != _PONG:
                return message
