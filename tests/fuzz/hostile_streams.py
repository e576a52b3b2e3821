"""A streaming server with a hostile client, followed by a well-behaved client."""

import asyncio
import socket
import struct
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeAlias
from unittest import mock
from urllib.parse import urlsplit

from aiohttp import WSMsgType
from hypothesis import settings

from pykubelet.base.http import hangup
from pykubelet.base.spdy import SpdyConnection
from pykubelet.base.spdy.frames import Frame
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.streaming import Execution, Forward
from pykubelet.testing.wait import until
from tests.unit.criserver.streaming.rig import INPUT, served

EXAMPLES = (settings.default or settings()).max_examples // 5
"""Number of examples, fewer than the profile's because each starts a server."""
PEAK = 20 * MIB
"""Memory limit of the server with one hostile client: two messages of 4 MiB, the session's buffers, some copies."""
_CHUNK = 128 * KIB
"""Bytes of one read, by which a limit that is checked afterwards may be exceeded."""
_STALLED = 0.1
"""Seconds after which a server that reads nothing is considered to throttle its client, as it should."""
_V4 = "v4.channel.k8s.io"

Head: TypeAlias = Callable[[str, str], bytes]
"""Builds the upgrade request for a host and a path."""


class Ports:
    """Ports of the pod: a program that replies, a program that never reads, and a port without a program."""

    def __init__(self, echo: int, deaf: int) -> None:
        self.echo = echo
        self.deaf = deaf
        self.closed = 1


@asynccontextmanager
async def pod() -> AsyncIterator[Ports]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(64 * KIB):
                writer.write(data)
                await writer.drain()
        writer.close()

    echo = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with echo:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            yield Ports(echo.sockets[0].getsockname()[1], deaf.getsockname()[1])


def target(kind: str, ports: Ports) -> Execution | Forward:
    """The URL that the hostile client uses."""
    if kind.startswith("exec"):
        return Execution("c", ("cat",) if kind == "exec" else ("sleep", "60"), INPUT)
    return Forward("s", None, (ports.echo, ports.deaf, ports.closed))


async def attack(url: str, head: Head, data: bytes, listens: bool) -> None:
    """Send all data, or as much as the server reads, and disconnect."""
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, (parts.hostname, parts.port))
        await loop.sock_sendall(client, head(parts.netloc, parts.path))
        answer = await loop.sock_recv(client, 4 * KIB)
        assert answer.startswith(b"HTTP/1.1 101"), answer
        listening = asyncio.ensure_future(_listen(client)) if listens else None
        with suppress(TimeoutError, OSError):
            rest = memoryview(data)
            while rest:
                async with asyncio.timeout(_STALLED):
                    await loop.sock_sendall(client, rest[: 16 * KIB])
                rest = rest[16 * KIB :]
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        # The kernel also resets the connection of a client whose last data is not read.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _listen(client: socket.socket) -> None:
    with suppress(OSError):
        while await asyncio.get_running_loop().sock_recv(client, 64 * KIB):
            pass


def run_attack(kind: str, head: Head, make: Callable[[Ports], bytes], listens: bool) -> None:
    """Run the hostile client; the server's memory must stay bounded and it must serve the next client."""
    asyncio.run(_run_attack(kind, head, make, listens))


async def _run_attack(kind: str, head: Head, make: Callable[[Ports], bytes], listens: bool) -> None:
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(hangup, "STUCK", 0.05):
        async with pod() as ports, served(Path(directory)) as (server, session):
            data = make(ports)
            # A few bytes cannot take much memory, and the measurement is slow.
            measuring = measured() if len(data) > _CHUNK else nullcontext(lambda: 0)
            with watched_connections() as broken, measuring as peak:
                await attack(server.url(target(kind, ports)), head, data, listens)
                await until(lambda: not server._serving, 60)
                assert peak() < PEAK
            assert broken == []
            assert server._sessions.taken == 0
            async with session.ws_connect(server.url(Forward("s", None, (ports.echo,))), protocols=(_V4,)) as client:
                await client.send_bytes(b"\0still there?")
                said = b""
                while b"\0still there?" not in said:
                    message = await client.receive()
                    assert message.type is WSMsgType.BINARY, f"the server said {said!r}, then {message}"
                    said += message.data


@contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """Measure the peak memory within the block."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class watched_connections:  # noqa: N801 - used like a function
    """Check the limits of each SPDY connection after each frame; yields the list of violations."""

    def __enter__(self) -> list[str]:
        broken: list[str] = []
        handle = SpdyConnection._handle

        def checked(connection: SpdyConnection, frame: Frame) -> None:
            handle(connection, frame)
            bounds = connection._bounds
            for what, value, limit in (
                ("streams", len(connection._streams), bounds.streams),
                ("held", connection._held, bounds.held_total + _CHUNK),
                ("queued", connection._queued, bounds.queued_at_most + _CHUNK),
                ("queue", len(connection._queue), connection._queued),
                ("undecoded", len(connection._decoder._buffer), _CHUNK),
                ("of streams", sum(stream.held for stream in connection._streams.values()), connection._held),
            ):
                if not 0 <= value <= limit:
                    broken.append(f"{what}: {value} is more than {limit}")

        self._patch = mock.patch.object(SpdyConnection, "_handle", checked)
        self._patch.start()
        return broken

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
