"""A running container's own streams, through conmon's socket."""

import asyncio
import os
import socket
from contextlib import suppress

from pykubelet.base.safe_path import proc_path
from pykubelet.criserver.conmon.files import resize
from pykubelet.criserver.streaming.types import AttachTo, Channel, Client, EndOfInput, Size

_PACKET = 32768 + 1
_CHANNELS = {2: Channel.STDOUT, 3: Channel.STDERR}
"""By the first byte of conmon's packets."""


async def attach(target: AttachTo, client: Client) -> None:
    """Pass the streams on until the container or the client ends."""
    try:
        connection = _connect(target)
    except OSError as error:
        await client.finish(1, f"container {target.container}: cannot attach: {error.strerror}")
        return
    with connection:
        output = asyncio.ensure_future(_pump(connection, target, client))
        listen = asyncio.ensure_future(_listen(connection, target, client))
        try:
            await asyncio.wait({output, listen}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (output, listen):
                task.cancel()
            await asyncio.gather(output, listen, return_exceptions=True)
    if not output.cancelled():
        await client.finish(0)


def _connect(target: AttachTo) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    folder = os.open(target.bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The whole path may be longer than a socket address.
        connection.connect(f"{proc_path(folder)}/attach")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


async def _pump(connection: socket.socket, target: AttachTo, client: Client) -> None:
    loop = asyncio.get_running_loop()
    wanted = {Channel.STDOUT: target.streams.stdout, Channel.STDERR: target.streams.stderr}
    with suppress(OSError):
        while packet := await loop.sock_recv(connection, _PACKET):
            channel = _CHANNELS.get(packet[0])
            if channel is not None and wanted[channel] and len(packet) > 1:
                await client.send(channel, packet[1:])


async def _listen(connection: socket.socket, target: AttachTo, client: Client) -> None:
    loop = asyncio.get_running_loop()
    async for what in client.receive():
        match what:
            case Size():
                resize(target.bundle, what.width, what.height)
            case EndOfInput():
                connection.shutdown(socket.SHUT_WR)
            case _ if target.streams.stdin:
                await loop.sock_sendall(connection, what)
