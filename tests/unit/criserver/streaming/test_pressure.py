"""Unread data of clients: they have to wait, buffers are bounded, and clients that go leave nothing behind."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from pykubelet.base.http.upgrade import request_head, request_upgrade
from pykubelet.base.spdy import SpdyConnection, StreamLink
from pykubelet.base.units import KIB, MIB
from pykubelet.criserver.conmon import ConmonControl
from pykubelet.criserver.streaming import AttachTarget, Execution, Forward, StreamingServer
from pykubelet.criserver.streaming.forward_websocket import _HeldBytes, _Pipe
from pykubelet.criserver.streaming.websocket import Channels
from pykubelet.testing.wait import settle, until
from tests.unit.criserver.streaming.rig import INPUT, served

_MESSAGE = b"\0" + b"x" * MIB
_MOST = 24 * MIB
"""Limit for unread data; it includes the buffers of the kernel for both ends of a connection on loopback."""
_V4 = "v4.channel.k8s.io"
Send = Callable[[], Awaitable[None]]
Way = Callable[[StreamingServer, aiohttp.ClientSession, Path], AbstractAsyncContextManager[Send]]


async def _flood(send: Send) -> int:
    """Send until nothing moves any more; return the number of bytes."""
    sent = 0
    while sent <= 2 * _MOST:
        try:
            async with asyncio.timeout(1):
                await send()
        except TimeoutError:
            break
        sent += len(_MESSAGE)
    return sent


def _vanish(transport: asyncio.BaseTransport) -> None:
    """As the kernel of a killed client does at the latest, when its unsent data is not read."""
    assert isinstance(transport, asyncio.Transport)
    reset = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    transport.abort()


@asynccontextmanager
async def _websocket(session: aiohttp.ClientSession, url: str) -> AsyncIterator[Send]:
    connected = await session.ws_connect(url, protocols=(_V4,))
    yield lambda: connected.send_bytes(_MESSAGE)
    connection = connected._response.connection
    assert connection is not None and connection.transport is not None
    _vanish(connection.transport)
    connected._response.close()


@asynccontextmanager
async def _spdy(url: str, *kinds: dict[str, str], protocol: str = _V4) -> AsyncIterator[Send]:
    """The last kind is that of the stream to send on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].partition("/")[0]))
    headers = [
        ("Host", "x"),
        ("Connection", "Upgrade"),
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", protocol),
    ]
    response = await request_upgrade(reader, writer, request_head("POST", url[url.index("/", 8) :], headers))
    assert response.status == 101
    async with SpdyConnection.over(StreamLink(reader, writer)) as connection:
        streams = [await connection.open(kind) for kind in kinds]
        yield lambda: streams[-1].write(_MESSAGE)
        _vanish(writer.transport)


@asynccontextmanager
async def _deaf(family: socket.AddressFamily, kind: socket.SocketKind, address: object) -> AsyncIterator[int]:
    """Takes connections and never reads; gives its port, if it has one."""
    with socket.socket(family, kind) as listener:
        listener.bind(address)  # type: ignore[arg-type]  # either a path or a host and a port
        listener.listen()
        yield 0 if family is socket.AF_UNIX else listener.getsockname()[1]


@asynccontextmanager
async def _exec_websocket(server: StreamingServer, session: aiohttp.ClientSession, _: Path) -> AsyncIterator[Send]:
    async with _websocket(session, server.url(Execution("c", ("sleep", "60"), INPUT))) as send:
        yield send


@asynccontextmanager
async def _exec_spdy(server: StreamingServer, _: aiohttp.ClientSession, __: Path) -> AsyncIterator[Send]:
    kinds = [{"streamtype": kind} for kind in ("error", "stdout", "stdin")]
    async with _spdy(server.url(Execution("c", ("sleep", "60"), INPUT)), *kinds) as send:
        yield send


@asynccontextmanager
async def _attach_websocket(
    server: StreamingServer, session: aiohttp.ClientSession, directory: Path
) -> AsyncIterator[Send]:
    (directory / "bundle").mkdir()
    async with _deaf(socket.AF_UNIX, socket.SOCK_SEQPACKET, str(directory / "bundle" / "attach")):
        url = server.url(AttachTarget("c", directory / "bundle", INPUT, ConmonControl(directory / "bundle")))
        async with _websocket(session, url) as send:
            yield send
        await until(lambda: not server._serving)


@asynccontextmanager
async def _forward_websocket(server: StreamingServer, session: aiohttp.ClientSession, _: Path) -> AsyncIterator[Send]:
    async with _deaf(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as port:
        async with _websocket(session, server.url(Forward("s", None, (port,)))) as send:
            yield send
        await until(lambda: not server._serving)


@asynccontextmanager
async def _forward_spdy(server: StreamingServer, _: aiohttp.ClientSession, __: Path) -> AsyncIterator[Send]:
    async with _deaf(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)) as port:
        kinds = [{"streamtype": kind, "port": str(port), "requestid": "1"} for kind in ("error", "data")]
        async with _spdy(server.url(Forward("s", None)), *kinds, protocol="portforward.k8s.io") as send:
            yield send
        await until(lambda: not server._serving)


@pytest.mark.parametrize(
    "way",
    [_exec_websocket, _exec_spdy, _attach_websocket, _forward_websocket, _forward_spdy],
    ids=lambda way: way.__name__,
)
async def test_a_client_that_floods_waits_and_is_missed_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setattr("pykubelet.base.http.hangup.STUCK", 0.1)
    async with served(tmp_path) as (server, session):
        async with way(server, session, tmp_path) as send:
            assert await _flood(send) < _MOST
            assert len(server._serving) == 1
        await until(lambda: not server._serving)


class _UnusedClient:
    """Nothing is written to this client."""

    ws_protocol = _V4


async def test_a_port_that_is_over_does_not_hold_up_the_others() -> None:
    held = _HeldBytes()
    channels = Channels(_UnusedClient())  # type: ignore[arg-type]  # all that is asked of it
    over, other = _Pipe(channels=channels, number=0, held=held), _Pipe(channels=channels, number=2, held=held)
    await over.put(b"x" * 2 * MIB)
    waits = asyncio.ensure_future(other.put(b"y"))
    await settle()
    assert not waits.done()
    over.end()
    await waits
    assert held.total == other._own < 100
    await over.put(b"dropped")
    assert held.total == other._own
    assert await other.read() == b"y"
    assert held.total == 0


async def test_one_port_holds_little() -> None:
    held = _HeldBytes()
    pipe = _Pipe(channels=Channels(_UnusedClient()), number=0, held=held)  # type: ignore[arg-type]  # all that is asked of it
    for _ in range(4):
        await pipe.put(b"x" * 64 * KIB)
    waits = asyncio.ensure_future(pipe.put(b"y"))
    await settle()
    assert not waits.done()
    assert len(await pipe.read()) == 64 * KIB
    await waits
