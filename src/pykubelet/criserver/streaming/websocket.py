"""The WebSocket protocols of Kubernetes: ``channel.k8s.io`` (v1), ``v4`` and ``v5``, the first two also as base64 text.

The first byte of each message is the channel. v4 added the exit status as JSON on the error channel, v5 a message for
the end of stdin.
"""

import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from aiohttp import WSMsgType, web

from pykubelet.base.http.hangup import hung_up, keep_alive, wait_until_stuck
from pykubelet.base.http.websocket_messages import Messages, close
from pykubelet.base.units import Bytes
from pykubelet.criserver.streaming.status import parse_size, status, text
from pykubelet.criserver.streaming.streaming_types import Channel, EndOfInput, FromClient, Size, Streams

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
V4_TEXT: Final = "v4.base64.channel.k8s.io"
V1: Final = "channel.k8s.io"
V1_TEXT: Final = "base64.channel.k8s.io"
PROTOCOLS: Final = (V5, V4, V4_TEXT, V1, V1_TEXT)
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
FORWARD_PROTOCOLS: Final = (TUNNEL, V4, V4_TEXT)


async def accept(request: web.Request, protocols: tuple[str, ...], longest: Bytes) -> web.WebSocketResponse:
    """Do the handshake. A client that names no protocol uses v1; one that names only unknown ones is refused.

    A message of more than ``longest`` bytes ends the connection.
    """
    offered = [word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if word.strip()]
    if offered and not set(offered) & set(protocols):
        raise web.HTTPForbidden(text=f"none of {', '.join(offered)} is spoken here, but {', '.join(protocols)}")
    chosen = protocols if offered else ()
    socket = web.WebSocketResponse(protocols=chosen, max_msg_size=longest, compress=False, autoping=False, timeout=0.0)
    await socket.prepare(request)
    keep_alive(socket)
    return socket


class Channels:
    """Numbered channels over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._textual = socket.ws_protocol in (V4_TEXT, V1_TEXT)
        self._received = 0

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield channel and data of each message, until the client has gone. Malformed messages are skipped."""
        async for message in Messages(self._socket):
            self._received += 1
            if self._textual and message.type is WSMsgType.TEXT and message.data:
                with suppress(binascii.Error, ValueError):
                    yield ord(message.data[0]) - ord("0"), base64.b64decode(message.data[1:], validate=True)
            elif not self._textual and message.type is WSMsgType.BINARY and message.data:
                yield message.data[0], message.data[1:]

    async def gone(self) -> None:
        """Return when the client has gone and none of its messages was read for a while."""
        await wait_until_stuck(lambda: self._received, lambda: hung_up(self._socket))

    async def send(self, channel: int, data: bytes) -> None:
        """Send, and wait while the client is slow. Raises ConnectionError if it has gone."""
        if self._textual:
            await self._socket.send_str(chr(ord("0") + channel) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(bytes([channel]) + data)

    async def close(self) -> None:
        """Close the WebSocket."""
        with suppress(ConnectionError):
            await close(self._socket)


class WebSocketClient:
    """A ``Client`` over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._channels = Channels(socket)
        self._version = socket.ws_protocol or V1

    async def greet(self, streams: Streams) -> None:
        """Send an empty message, which tells the client that it is connected, as the Go kubelet does."""
        first = Channel.STDOUT if streams.stdout else Channel.STDERR if streams.stderr else Channel.ERROR
        await self._channels.send(first, b"")

    async def receive(self) -> AsyncIterator[FromClient]:
        """Yield what the client sends, until it has gone. Unknown channels are skipped."""
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
        """Return when the client has gone, even if data from it is still unread."""
        await self._channels.gone()

    async def send(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._channels.send(channel, data)

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Send the exit code or the failure, and close."""
        tell = text if self._version in (V1, V1_TEXT) else status
        with suppress(ConnectionError):
            if data := tell(exit_code, failure):
                await self._channels.send(Channel.ERROR, data)
            await self._channels.close()
