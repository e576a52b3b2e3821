"""Port-forward over WebSocket: two channels for each port, data and errors, which begin with the port's number."""

import asyncio
import socket
import struct
from contextlib import suppress

from aiohttp import WSMsgType, web

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.streaming.forward import connect
from pykubelet.criserver.streaming.types import Forward

_CHUNK = 32768
_MOST = 64


async def forward(target: Forward, ports: list[int], client: web.WebSocketResponse) -> None:
    """Join each port to its channels until the client goes."""
    connections: dict[int, socket.socket] = {}
    async with asyncio.TaskGroup() as group:
        pumps = []
        try:
            for index, port in enumerate(ports[:_MOST]):
                number = struct.pack("<H", port)
                for channel in (2 * index, 2 * index + 1):
                    await client.send_bytes(bytes([channel]) + number)
                try:
                    connections[2 * index] = connection = await connect(target.netns, port)
                except PykubeletError as error:
                    await client.send_bytes(bytes([2 * index + 1]) + str(error).encode())
                    continue
                pump = _pump(connection, 2 * index, client)
                pumps.append(group.create_task(pump, name=f"forward-{port}"))
            await _listen(client, connections)
        finally:
            for task in pumps:
                task.cancel()
    for connection in connections.values():
        connection.close()
    await client.close()


async def _listen(client: web.WebSocketResponse, connections: dict[int, socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    async for message in client:
        if message.type is WSMsgType.BINARY and message.data:
            connection = connections.get(message.data[0])
            if connection is not None:
                with suppress(OSError):
                    await loop.sock_sendall(connection, message.data[1:])


async def _pump(connection: socket.socket, channel: int, client: web.WebSocketResponse) -> None:
    with suppress(OSError):
        while data := await asyncio.get_running_loop().sock_recv(connection, _CHUNK):
            await client.send_bytes(bytes([channel]) + data)
