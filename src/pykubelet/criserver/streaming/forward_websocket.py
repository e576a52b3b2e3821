"""Port-forward over WebSocket: two channels for each port, data and errors, each of which begins with the port."""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.streaming.forward import connect, relay
from pykubelet.criserver.streaming.streaming_types import Forward
from pykubelet.criserver.streaming.websocket import Channels

_MOST: Final = 64
"""Ports of one session; the number of a channel is one byte."""
_HELD: Final = 256 * KIB
"""Unread bytes of one port, without the last message, beyond which the client has to wait."""
_HELD_TOTAL: Final = 1 * MIB
"""Unread bytes of all ports, beyond which the client has to wait."""
_OVERHEAD: Final = 64
"""Bytes that a message takes in memory beyond its data: many are one byte long."""


async def forward(target: Forward, ports: Sequence[int], socket: web.WebSocketResponse) -> None:
    """Connect each port to its channels until the client disconnects or all connections have ended."""
    channels = Channels(socket)
    held = _HeldBytes()
    pipes = {2 * index: _Pipe(channels=channels, number=2 * index, held=held) for index in range(len(ports[:_MOST]))}
    for (number, _), port in zip(pipes.items(), ports, strict=False):
        for channel in (number, number + 1):
            await channels.send(channel, struct.pack("<H", port))
    work = asyncio.ensure_future(_all(target, ports, channels, pipes))
    listen = asyncio.ensure_future(_listen(channels, pipes))
    gone = asyncio.ensure_future(channels.gone())
    try:
        await asyncio.wait({work, listen, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, listen, gone):
            task.cancel()
        await asyncio.gather(work, listen, gone, return_exceptions=True)
    await channels.close()


async def _all(target: Forward, ports: Sequence[int], channels: Channels, pipes: "dict[int, _Pipe]") -> None:
    async with asyncio.TaskGroup() as group:
        for pipe, port in zip(pipes.values(), ports, strict=False):
            group.create_task(_one(target, port, channels, pipe), name=f"forward-{port}")


class _HeldBytes:
    """The bytes of one client that the pod has not read yet."""

    def __init__(self) -> None:
        self.total = 0
        self.less = asyncio.Event()
        """Set whenever some bytes were read."""


class _Pipe:
    """The data channel of one port."""

    def __init__(self, *, channels: Channels, number: int, held: _HeldBytes) -> None:
        self._channels = channels
        self.number = number
        self._held = held
        self._own = 0
        self._ended = False
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()

    async def put(self, data: bytes) -> None:
        """Queue data for the pod, waiting while too much is queued. After the end data is dropped."""
        while not self._ended and (self._own > _HELD or self._held.total > _HELD_TOTAL):
            self._held.less.clear()
            await self._held.less.wait()
        if self._ended:
            return
        self._own += len(data) + _OVERHEAD
        self._held.total += len(data) + _OVERHEAD
        self._waiting.put_nowait(data)

    async def read(self) -> bytes:
        data = await self._waiting.get()
        self._took(len(data) + _OVERHEAD)
        return data

    def end(self) -> None:
        """Drop queued data, which is not read any more: other ports must not wait for it."""
        self._ended = True
        self._waiting = asyncio.Queue()
        self._took(self._own)

    def _took(self, size: int) -> None:
        self._own -= size
        self._held.total -= size
        self._held.less.set()

    async def write(self, data: bytes) -> None:
        await self._channels.send(self.number, data)


async def _one(target: Forward, port: int, channels: Channels, pipe: _Pipe) -> None:
    with suppress(ConnectionError):
        try:
            with await connect(target.netns, port, target.owner) as connection:
                await relay(connection, pipe)
        except PykubeletError as error:
            await channels.send(pipe.number + 1, str(error).encode())
        finally:
            pipe.end()


async def _listen(channels: Channels, pipes: dict[int, _Pipe]) -> None:
    async for channel, data in channels.receive():
        if data and channel in pipes:
            await pipes[channel].put(data)
