"""Attach: the streams of a running container, through conmon's socket."""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Final

from pykubelet.base.files.safe_path import proc_path
from pykubelet.criserver.streaming.streaming_types import AttachTarget, Channel, Client, EndOfInput, Size

_PACKET: Final = 32768 + 1
_INPUT: Final = 8192
"""Size of packets of input: conmon reads packets of at most 32 KiB and loses the rest of larger ones."""
_CHANNELS: Final = {2: Channel.STDOUT, 3: Channel.STDERR}
"""Channels by the first byte of conmon's packets."""


async def attach(target: AttachTarget, client: Client) -> None:
    """Copy the streams until the container or the client ends.

    A session whose input ends is closed if the container's stdin stays open for other clients: nothing else would end
    it. (The runtimes used with the Go kubelet do the same.)
    """
    try:
        connection = _connect(target)
    except OSError as error:
        await client.finish(1, f"container {target.container}: cannot attach: {error.strerror}")
        return
    with connection:
        output = asyncio.ensure_future(_pump(connection, target, client))
        listen = asyncio.ensure_future(_listen(connection, target, client))
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait({output, listen, gone}, return_when=asyncio.FIRST_COMPLETED)
            ended = (output.done() and output.result()) or (listen.done() and listen.result())
        finally:
            for task in (output, listen, gone):
                task.cancel()
            await asyncio.gather(output, listen, gone, return_exceptions=True)
    if ended:
        await client.finish(0)


def _connect(target: AttachTarget) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        directory = os.open(target.bundle, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The whole path may be too long for a socket address.
            connection.connect(f"{proc_path(directory)}/attach")
        finally:
            os.close(directory)
    except BaseException:
        connection.close()
        raise
    return connection


async def _pump(connection: socket.socket, target: AttachTarget, client: Client) -> bool:
    """Copy output to the client. Returns True if the container has ended, False if the client has gone."""
    loop = asyncio.get_running_loop()
    wanted = {Channel.STDOUT: target.streams.stdout, Channel.STDERR: target.streams.stderr}
    while True:
        try:
            packet = await loop.sock_recv(connection, _PACKET)
        except OSError:
            packet = b""
        if not packet:
            return True
        channel = _CHANNELS.get(packet[0])
        if channel is not None and wanted[channel] and len(packet) > 1:
            try:
                await client.send(channel, packet[1:])
            except OSError:
                return False


async def _listen(connection: socket.socket, target: AttachTarget, client: Client) -> bool:
    """Copy the client's input. Returns True if the input has ended, False if the client has gone."""
    loop = asyncio.get_running_loop()
    async for what in client.receive():
        match what:
            case Size():
                await target.control.resize(what.width, what.height)
            case EndOfInput():
                if target.streams.terminal or not target.streams.stdin:
                    continue
                if not target.stdin_once:
                    return True
                # conmon then closes its end of the container's stdin.
                connection.shutdown(socket.SHUT_WR)
                await target.control.end_input()
            case _ if target.streams.stdin:
                with suppress(OSError):
                    for at in range(0, len(what), _INPUT):
                        await loop.sock_sendall(connection, what[at : at + _INPUT])
    return False
