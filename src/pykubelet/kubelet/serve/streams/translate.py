"""Translation between a client that speaks ``v5.channel.k8s.io`` and a runtime that speaks SPDY ``v4``."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSMsgType, web

from pykubelet.base.errors import Transient
from pykubelet.base.http.hangup import hung_up, keep_alive, wait_until_stuck
from pykubelet.base.http.upgrade import SWITCHED
from pykubelet.base.http.websocket_messages import Messages, close
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink
from pykubelet.base.units import MIB
from pykubelet.kubelet.serve.streams.stream_backend import connected, refusal
from pykubelet.kubelet.serve.streams.stream_types import V4, V5, StreamSet

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_NAMES: Final = {_STDIN: "stdin", _STDOUT: "stdout", _STDERR: "stderr", _ERROR: "error", _RESIZE: "resize"}
_MESSAGE: Final = 4 * MIB


async def translate(request: web.Request, url: str, streams: StreamSet) -> web.StreamResponse:
    """Serve the request to its end.

    Transient: the runtime is not responding; raised before anything is sent to the client.
    """
    async with connected(url) as backend:
        answer = await backend.spdy(V4)
        if answer.status != SWITCHED:
            return refusal(answer)
        async with SpdyConnection.over(StreamLink(backend.reader, backend.writer)) as connection:
            try:
                runtime = await _open(connection, streams)
            except (OSError, TimeoutError) as error:
                raise Transient(f"the runtime refused to open the streams: {error}") from error
            socket = web.WebSocketResponse(
                protocols=(V5,), max_msg_size=_MESSAGE, compress=False, autoping=False, timeout=0.0
            )
            await socket.prepare(request)
            keep_alive(socket)
            with suppress(ConnectionError):
                await _Translation(socket, runtime).run()
            await close(socket)
            return socket


async def _open(connection: SpdyConnection, streams: StreamSet) -> dict[int, SpdyStream]:
    wanted = {_ERROR: True, _STDIN: streams.stdin, _STDOUT: streams.stdout, _STDERR: streams.stderr}
    wanted |= {_STDERR: streams.stderr and not streams.tty, _RESIZE: streams.tty}
    return {
        channel: await connection.open({"streamtype": _NAMES[channel]}) for channel, given in wanted.items() if given
    }


@dataclass(slots=True)
class _Translation:
    """One session: the client's WebSocket, and the runtime's streams by WebSocket channel."""

    socket: web.WebSocketResponse
    streams: dict[int, SpdyStream]
    _status: bytes = field(default=b"", init=False)
    _received: int = field(default=0, init=False)

    async def run(self) -> None:
        """Copy until the runtime has sent the command's status, or one side disconnects."""
        outputs = [channel for channel in (_STDOUT, _STDERR) if channel in self.streams]
        # An empty message tells the client that it is connected.
        await self.socket.send_bytes(bytes([*outputs, _ERROR][:1]))
        work = asyncio.create_task(self._outputs(outputs), name="translate-output")
        listen = asyncio.create_task(self._listen(), name="translate-input")
        stuck = wait_until_stuck(lambda: self._received, lambda: hung_up(self.socket))
        gone = asyncio.create_task(stuck, name="translate-client-gone")
        try:
            await asyncio.wait({work, listen, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and work.exception() is None:
                await self.socket.send_bytes(bytes([_ERROR]) + self._status)
        finally:
            for task in (work, listen, gone):
                task.cancel()
            await asyncio.gather(work, listen, gone, return_exceptions=True)

    async def _outputs(self, outputs: list[int]) -> None:
        """Copy all outputs; return when all of them, including the status stream, have ended."""
        async with asyncio.TaskGroup() as group:
            for channel in outputs:
                group.create_task(self._output(channel), name=f"translate-{_NAMES[channel]}")
            with suppress(ConnectionError):
                while data := await self.streams[_ERROR].read():
                    self._status = (self._status + data)[:_MESSAGE]

    async def _output(self, channel: int) -> None:
        stream = self.streams[channel]
        while True:
            try:
                data = await stream.read()
            except ConnectionError:
                return
            if not data:
                return
            await self.socket.send_bytes(bytes([channel]) + data)

    async def _listen(self) -> None:
        async for message in Messages(self.socket):
            self._received += 1
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _CLOSE:
                if _STDIN in self.streams and data == bytes([_STDIN]):
                    self.streams[_STDIN].finish()
            elif channel in (_STDIN, _RESIZE) and channel in self.streams:
                # A command that has closed its input must not end the session.
                with suppress(ConnectionError):
                    await self.streams[channel].write(data)
