"""Port-forward: connections to ports inside a sandbox."""

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.namespaces import Namespace, call_in

_CONNECT: Final[Seconds] = 10.0
_CHUNK: Final = 32768
_LOOPBACKS: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Pipe(Protocol):
    """The client's end of one forwarded connection."""

    async def read(self) -> bytes:
        """Read some bytes; none when the client sends no more. Raises ConnectionError if it has gone."""
        ...

    async def write(self, data: bytes) -> None:
        """Send, and wait while the client is slow. Raises ConnectionError if it has gone."""
        ...


async def connect(netns: Path | None, port: int, owner: str) -> socket.socket:
    """Connect to a port on the sandbox's loopback device, IPv4 first. Raises Transient if no process listens.

    ``owner`` is the owner of the blocking calls.
    """
    reasons = []
    for family, address in _LOOPBACKS:
        try:
            # A socket belongs to the namespace in which it is created, wherever it is used afterwards.
            made = _make(None, family) if netns is None else await _made(netns, family, owner)
        except OSError as error:
            reasons.append(f"{address}: {error.strerror}")
            continue
        try:
            async with asyncio.timeout(_CONNECT):
                await asyncio.get_running_loop().sock_connect(made, (address, port))
            return made
        except (OSError, TimeoutError) as error:
            # asyncio replaces the text of the error by its own.
            reasons.append(f"{address}: {os.strerror(error.errno) if error.errno else 'timed out'}")
            made.close()
        except BaseException:
            made.close()
            raise
    raise Transient(f"cannot connect to port {port} of the pod: {', '.join(reasons)}")


async def relay(connection: socket.socket, pipe: Pipe) -> None:
    """Copy data in both directions until the program in the pod closes its direction or the client has gone."""
    upstream = asyncio.ensure_future(_to_pod(connection, pipe))
    downstream = asyncio.ensure_future(_to_client(connection, pipe))
    try:
        while not downstream.done():
            done, _ = await asyncio.wait({upstream, downstream}, return_when=asyncio.FIRST_COMPLETED)
            if upstream in done:
                if upstream.exception() is None:
                    # The client sends no more, but may still read.
                    await asyncio.wait({downstream})
                return
    finally:
        for task in (upstream, downstream):
            task.cancel()
        await asyncio.gather(upstream, downstream, return_exceptions=True)


async def _to_pod(connection: socket.socket, pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    while data := await pipe.read():
        # A program that reads no more may still send.
        with suppress(OSError):
            await loop.sock_sendall(connection, data)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


async def _to_client(connection: socket.socket, pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(connection, _CHUNK):
        await pipe.write(data)


async def _made(netns: Path, family: int, owner: str) -> socket.socket:
    making = asyncio.ensure_future(blocking.call(owner, _make, netns, family))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_unwanted)
        raise


def _unwanted(making: "asyncio.Future[socket.socket]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().close()


def _make(netns: Path | None, family: int) -> socket.socket:
    def make() -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        made.setblocking(False)
        return made

    return make() if netns is None else call_in(str(netns), Namespace.NET, make)
