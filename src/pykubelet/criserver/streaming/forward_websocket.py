"""Port-forward over WebSocket: two channels for each port, data and errors, which begin with the port's number."""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.streaming.forward import connect, relay
from pykubelet.criserver.streaming.types import Forward
from pykubelet.criserver.streaming.websocket import Channels

_MOST: Final = 64
"""Ports at once; a channel's number is one byte."""
_WAITING: Final = 16
"""Messages for one port that the pod has not taken yet; then nothing more is read from the client."""


async def forward(target: Forward, ports: Sequence[int], socket: web.WebSocketResponse) -> None:
    """Join each port to its channels until the client goes, or all have ended."""
    channels = Channels(socket)
    pipes = {2 * index: _Pipe(channels, 2 * index) for index in range(len(ports[:_MOST]))}
    for (number, _), port in zip(pipes.items(), ports, strict=False):
        for channel in (number, number + 1):
            await channels.send(channel, struct.pack("<H", port))
    work = asyncio.ensure_future(_all(target, ports, channels, pipes))
    listen = asyncio.ensure_future(_listen(channels, pipes))
    try:
        await asyncio.wait({work, listen}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (work, listen):
            task.cancel()
        await asyncio.gather(work, listen, return_exceptions=True)
    await channels.close()


async def _all(target: Forward, ports: Sequence[int], channels: Channels, pipes: "dict[int, _Pipe]") -> None:
    async with asyncio.TaskGroup() as group:
        for pipe, port in zip(pipes.values(), ports, strict=False):
            group.create_task(_one(target, port, channels, pipe), name=f"forward-{port}")


class _Pipe:
    """One port's data."""

    def __init__(self, channels: Channels, number: int) -> None:
        self._channels = channels
        self.number = number
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

    async def read(self) -> bytes:
        return await self.waiting.get()

    async def write(self, data: bytes) -> None:
        await self._channels.send(self.number, data)


async def _one(target: Forward, port: int, channels: Channels, pipe: _Pipe) -> None:
    with suppress(ConnectionError):
        try:
            with await connect(target.netns, port) as connection:
                await relay(connection, pipe)
        except PykubeletError as error:
            await channels.send(pipe.number + 1, str(error).encode())


async def _listen(channels: Channels, pipes: dict[int, _Pipe]) -> None:
    async for channel, data in channels.receive():
        if data and channel in pipes:
            await pipes[channel].waiting.put(data)
