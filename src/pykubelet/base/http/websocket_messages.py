"""The messages of a WebSocket, read so that a peer that floods it leaves other tasks their turn.

aiohttp returns messages that have arrived already, and answers pings, without a return to the event loop. One read of a
socket can bring 40,000 messages; a few clients that send such messages would keep everything else waiting for seconds.
"""

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from pykubelet.base.units import Seconds

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

AT_ONCE: Final = 64
"""Messages that are read before the event loop runs other tasks."""
_LINGER: Final[Seconds] = 10.0
"""Time that the peer has to close, too, so that the kernel does not drop data that the peer has not read."""
_GOODBYE: Final = struct.pack(">H", 1000)
_PING: Final = 0x9
_PONG: Final = 0xA
"""Opcodes of RFC 6455, section 5.2, which are also the numbers of aiohttp's message types."""


class Messages:
    """An iterator over the messages until the peer has gone; it answers the peer's pings.

    A server's WebSocket needs ``autoping=False`` and ``timeout=0.0``: else aiohttp itself reads pings, and what comes
    before the peer's own close, without yielding to other tasks. A read that is cancelled loses no message.
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


async def say_goodbye(socket: "web.WebSocketResponse | aiohttp.ClientWebSocketResponse") -> None:
    """Tell the peer that nothing more is sent. The reader goes on until the peer has closed, too."""
    from aiohttp import WSMsgType

    if not socket.closed:
        await socket.send_frame(_GOODBYE, WSMsgType.CLOSE)


async def close(socket: "web.WebSocketResponse") -> None:
    """Close a server's WebSocket, which no other task reads any more: say so, and wait for the peer for a while."""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(_LINGER):
            await say_goodbye(socket)
            async for _ in Messages(socket):
                pass
    await socket.close()
