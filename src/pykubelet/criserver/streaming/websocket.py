"""The WebSocket protocols of Kubernetes: ``channel.k8s.io`` (v1), ``v4`` and ``v5``, the first two also as text.

The first byte of each message is the channel. v4 brought an exit status as JSON on the error channel, v5 a way to say
that stdin has ended.
"""

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from aiohttp import WSMsgType, web

from pykubelet.base.hangup import hung_up, keep_alive, wait_until_stuck
from pykubelet.base.units import Bytes
from pykubelet.criserver.streaming.status import parse_size, status, text
from pykubelet.criserver.streaming.types import Channel, EndOfInput, FromClient, Size, Streams

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
V4_TEXT: Final = "v4.base64.channel.k8s.io"
V1: Final = "channel.k8s.io"
V1_TEXT: Final = "base64.channel.k8s.io"
PROTOCOLS: Final = (V5, V4, V4_TEXT, V1, V1_TEXT)
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
FORWARD_PROTOCOLS: Final = (TUNNEL, V4, V4_TEXT)


async def accept(request: web.Request, protocols: tuple[str, ...], longest: Bytes) -> web.WebSocketResponse:
    """Do the handshake. A client that names no protocol speaks v1; one that names only unknown ones is refused.

    A message of more than ``longest`` bytes ends the connection.
    """
    offered = [word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if word.strip()]
    if offered and not set(offered) & set(protocols):
        raise web.HTTPForbidden(text=f"none of {', '.join(offered)} is spoken here, but {', '.join(protocols)}")
    socket = web.WebSocketResponse(protocols=protocols if offered else (), max_msg_size=longest, compress=False)
    await socket.prepare(request)
    keep_alive(socket)
    return socket


class Channels:
    """Numbered channels on a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._textual = socket.ws_protocol in (V4_TEXT, V1_TEXT)
        self._received = 0

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Channel and data of each message, until the client is gone. What is malformed is skipped."""
        async for message in self._socket:
            self._received += 1
            if self._textual and message.type is WSMsgType.TEXT and message.data:
                with suppress(binascii.Error, ValueError):
                    yield ord(message.data[0]) - ord("0"), base64.b64decode(message.data[1:], validate=True)
            elif not self._textual and message.type is WSMsgType.BINARY and message.data:
                yield message.data[0], message.data[1:]

    async def gone(self) -> None:
        """Return when the client is gone, and none of its messages was received for a while."""
        await wait_until_stuck(lambda: self._received, lambda: hung_up(self._socket))

    async def send(self, channel: int, data: bytes) -> None:
        """Send, and wait while the client is slow. ConnectionError when it is gone."""
        if self._textual:
            await self._socket.send_str(chr(ord("0") + channel) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def close(self) -> None:
        """Say good-bye."""
        with suppress(ConnectionError):
            await self._socket.close()


class WebSocketClient:
    """A ``Client`` over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._channels = Channels(socket)
        self._version = socket.ws_protocol or V1

    async def greet(self, streams: Streams) -> None:
        """An empty message tells the client that it is connected; the reference sends it too."""
        first = Channel.STDOUT if streams.stdout else Channel.STDERR if streams.stderr else Channel.ERROR
        await self._channels.send(first, b"")

    async def receive(self) -> AsyncIterator[FromClient]:
        """What the client sends, until it is gone. Unknown channels are skipped."""
        async for channel, data in self._channels.receive():
            match channel:
                case Channel.STDIN if data:
                    yield data
                case Channel.RESIZE:
                    size = parse_size(data)
                    if isinstance(size, Size):
                        yield size
                case Channel.CLOSE if self._version == V5 and data[:1] == bytes([Channel.STDIN]):
                    yield EndOfInput()

    async def gone(self) -> None:
        """Return when it is gone, though not all was received."""
        await self._channels.gone()

    async def send(self, channel: Channel, data: bytes) -> None:
        """Give it output."""
        await self._channels.send(channel, data)

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Tell how it ended and close."""
        tell = text if self._version in (V1, V1_TEXT) else status
        with suppress(ConnectionError):
            if data := tell(exit_code, failure):
                await self._channels.send(Channel.ERROR, data)
            await self._channels.close()
