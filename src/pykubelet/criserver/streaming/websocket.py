"""The WebSocket protocols of Kubernetes: ``channel.k8s.io`` (v1), ``v4`` and ``v5``.

The first byte of each message is the channel. v4 brought an exit status as JSON on the error channel, v5 a way to say
that stdin has ended.
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import WSMsgType, web

from pykubelet.criserver.streaming.types import Channel, EndOfInput, FromClient, Size

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io")
FORWARD_PROTOCOLS = ("v4.channel.k8s.io",)


class WebSocketClient:
    """A ``Client`` over a WebSocket."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._version = socket.ws_protocol or PROTOCOLS[-1]

    async def receive(self) -> AsyncIterator[FromClient]:
        """What the client sends, until it is gone. Unknown channels are skipped."""
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == Channel.STDIN:
                if data:
                    yield data
            elif channel == Channel.RESIZE:
                size = parse_size(data)
                if size is not None:
                    yield size
            elif channel == Channel.CLOSE and data[:1] == bytes([Channel.STDIN]):
                yield EndOfInput()

    async def send(self, channel: Channel, data: bytes) -> None:
        """Give it output."""
        await self._socket.send_bytes(bytes([channel]) + data)

    async def finish(self, exit_code: int, failure: str = "") -> None:
        """Tell how it ended and close."""
        with suppress(ConnectionError):
            if self._version == PROTOCOLS[-1]:
                text = failure or (f"command terminated with non-zero exit code: {exit_code}" if exit_code else "")
                data = text.encode()
            else:
                data = status(exit_code, failure)
            if data:
                await self.send(Channel.ERROR, data)
            await self._socket.close()


def status(exit_code: int, failure: str) -> bytes:
    """A Kubernetes Status object: how clients learn the exit code (k8s.io/apimachinery, ``NonZeroExitCode``)."""
    if failure:
        return json.dumps({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": failure}).encode()
    if exit_code == 0:
        return json.dumps({"metadata": {}, "status": "Success"}).encode()
    message = f"command terminated with non-zero exit code: {exit_code}"
    details = {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]}
    body = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": details}
    return json.dumps(body).encode()


def parse_size(data: bytes) -> Size | None:
    """A terminal's size from a resize message; None when it makes no sense."""
    try:
        document = json.loads(data)
        width, height = int(document["Width"]), int(document["Height"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Size(width, height) if 0 < width < 65536 and 0 < height < 65536 else None
