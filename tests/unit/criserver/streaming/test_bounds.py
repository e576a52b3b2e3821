"""Bounds on clients of the streaming server: memory, sessions, connections and waiting requests."""

import asyncio
import gc
import json
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from pykubelet.base.errors import Transient
from pykubelet.base.http.upgrade import request_head, request_upgrade
from pykubelet.base.spdy import Bounds, Decoder, Encoder, SpdyConnection, SpdyStream, StreamLink, StreamResetError
from pykubelet.base.spdy.frames import RstStream, SynStream
from pykubelet.base.units import KIB, MIB, Bytes
from pykubelet.criserver.streaming import Execution, Forward, StreamingServer, forward_spdy
from pykubelet.criserver.streaming.forward_spdy import _Pair
from pykubelet.criserver.streaming.session_limits import SessionLimits, bounds, longest_message
from pykubelet.criserver.streaming.status import parse_size
from pykubelet.criserver.streaming.streaming_types import Size
from pykubelet.testing.wait import until
from tests.unit.criserver.streaming.rig import OUTPUT, TERMINAL, served

_PORTFORWARD = "portforward.k8s.io"


def _request(url: str, protocol: str) -> bytes:
    target = urlsplit(url)
    headers = [("Host", target.netloc), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    return request_head("POST", target.path, [*headers, ("X-Stream-Protocol-Version", protocol)])


@asynccontextmanager
async def _link(url: str, protocol: str = _PORTFORWARD) -> AsyncIterator[StreamLink]:
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        assert (await request_upgrade(reader, writer, _request(url, protocol))).status == 101
        yield StreamLink(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def _forwarding(server: StreamingServer) -> AsyncIterator[SpdyConnection]:
    async with _link(server.url(Forward("s", None))) as link, SpdyConnection.over(link) as connection:
        yield connection


def _pairs() -> int:
    return sum(isinstance(each, _Pair) for each in gc.get_objects())


async def test_forward_streams_reset_at_once_leave_nothing(tmp_path: Path) -> None:
    """A few bytes make a stream with large headers and give it up; nothing of it may stay."""
    encoder, before = Encoder(), _pairs()
    async with served(tmp_path) as (server, _), _link(server.url(Forward("s", None))) as link:
        peaks = []

        def ended() -> bool:
            # The list of all objects, which grows with the suite, is not the server's memory.
            peaks.append(tracemalloc.get_traced_memory()[1])
            none_left = _pairs() <= before
            tracemalloc.reset_peak()
            return none_left

        tracemalloc.start()
        try:
            for number in range(1, 6001, 2):
                headers = {"streamtype": "error", "port": "80", "requestid": str(number), "padding": "x" * 8 * KIB}
                await link.write(encoder.encode(SynStream(number, headers)) + encoder.encode(RstStream(number, 5)))
            await until(ended)
            assert max(peaks) < 8 * MIB
        finally:
            tracemalloc.stop()
        # It still serves.
        await link.write(encoder.encode(SynStream(9001, {"streamtype": "rubbish"})))
        reply = b""
        while RstStream(9001, 3) not in _frames(reply):
            reply += await link.read()


def _frames(data: bytes) -> list[object]:
    return list(Decoder().feed(data))


async def test_forward_of_too_many_connections_at_a_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_spdy, "MOST", 2)
    async with served(tmp_path) as (server, _), _forwarding(server) as connection:

        async def opened(number: str) -> bool:
            try:
                made.append(await connection.open({"streamtype": "error", "port": "80", "requestid": number}))
            except StreamResetError:
                return False
            return True

        made: list[SpdyStream] = []
        assert [await opened(number) for number in "123"] == [True, True, False]
        made[0].reset()
        # Its place is free soon.
        while not await opened("3"):
            pass


async def test_forward_with_an_endless_request_number_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _), _forwarding(server) as connection:
        with pytest.raises(StreamResetError):
            await connection.open({"streamtype": "error", "port": "80", "requestid": "1" * 65})


async def test_forward_ends_when_its_data_is_reset(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.set()
        await reader.read(-1)
        ended.set()
        writer.close()

    listener = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = str(listener.sockets[0].getsockname()[1])
    async with listener, served(tmp_path) as (server, _), _forwarding(server) as connection:
        await connection.open({"streamtype": "error", "port": port, "requestid": "1"})
        data = await connection.open({"streamtype": "data", "port": port, "requestid": "1"})
        await began.wait()
        data.reset()
        await ended.wait()


async def test_sessions_beyond_the_most_are_refused_until_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykubelet.criserver.streaming.server.SessionLimits", lambda: SessionLimits(most=1))
    async with served(tmp_path) as (server, session):
        async with session.ws_connect(server.url(Execution("c", ("cat",), OUTPUT)), protocols=("v4.channel.k8s.io",)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(server.url(Execution("c", ("true",), OUTPUT)))
            assert refused.value.status == 503
        await until(lambda: server._sessions.taken == 0)
        await (await session.ws_connect(server.url(Execution("c", ("true",), OUTPUT)))).close()


def test_shares_together_are_bounded_and_given_back() -> None:
    shares, taken = SessionLimits(total=64 * MIB, most=300), []
    for _ in range(300):
        block = shares.reserve()
        taken.append((block, block.__enter__()))
    sizes = [size for _, size in taken]
    assert sizes[0] == 8 * MIB
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) <= 64 * MIB + 300 * 128 * KIB
    assert min(sizes) == 128 * KIB
    with pytest.raises(Transient, match="300 streaming sessions are open"), shares.reserve():
        pass
    for block, _ in taken:
        block.__exit__(None, None, None)
    with shares.reserve() as again:
        assert again == 8 * MIB


@pytest.mark.parametrize("share", [128 * KIB, MIB, 8 * MIB])
def test_limits_of_a_session_fit_its_share(share: int) -> None:
    made = bounds(Bytes(share))
    assert made.held_total + made.queued_at_most <= share
    assert made.held <= made.held_total
    assert made.queued <= made.queued_at_most
    assert 2 * longest_message(Bytes(share)) <= share


def test_limits_of_the_first_sessions_are_the_usual_ones() -> None:
    assert bounds(Bytes(8 * MIB)) == Bounds()


async def test_websocket_message_that_is_too_long_ends_the_session(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("cat",), TERMINAL))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as client:
            with suppress(ConnectionError):
                await client.send_bytes(b"\0" * 5 * MIB)
            while (await client.receive()).type is aiohttp.WSMsgType.BINARY:
                pass
            assert client.closed
            await until(lambda: server._sessions.taken == 0)


def _connected(server: StreamingServer, count: int) -> list[socket.socket]:
    """At once, before the server gets its turn."""
    target = urlsplit(server.url(Execution("c", ("true",), OUTPUT)))
    made = []
    for _ in range(count):
        client = socket.create_connection((str(target.hostname), int(target.port or 0)))
        client.setblocking(False)
        made.append(client)
    return made


async def test_client_that_asks_at_once_is_served_amid_a_flood_of_connections(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        flood = _connected(server, 10)
        url = server.url(Execution("c", ("true",), OUTPUT))
        (client,) = _connected(server, 1)
        client.send(_request(url, "v4.channel.k8s.io"))
        flood += _connected(server, 400)
        answer = await asyncio.get_running_loop().sock_recv(client, 1000)
        assert answer.startswith(b"HTTP/1.1 101")
        # Connections are accepted in their order: when the last one is served, none waits for that.
        (last,) = _connected(server, 1)
        last.send(b"GET /exec/guessed HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await asyncio.get_running_loop().sock_recv(last, 1000)).startswith(b"HTTP/1.1 404")
        for each in (*flood, client, last):
            each.close()


async def test_request_with_too_many_headers_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("true",), OUTPUT))
        async with session.get(url, headers={f"x-{number}": "y" * 4000 for number in range(80)}) as reply:
            assert reply.status == 400
            assert "upgrade" not in await reply.text()


async def test_body_of_a_rejected_request_is_not_read(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        (client,) = _connected(server, 1)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, b"POST /exec/guessed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        answer = b""
        async with asyncio.timeout(5):  # half of what aiohttp would go on reading
            while data := await loop.sock_recv(client, 1000):
                answer += data
        assert answer.startswith(b"HTTP/1.1 404")
        client.close()


async def test_bad_requests_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("true",), OUTPUT))
        async with session.get(url, headers={"x": "y" * 20_000}) as reply:
            assert reply.status == 400
        reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        writer.write(b"\0" * 1000)
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert not [record for record in caplog.records if record.exc_info]


async def test_commands_that_wait_take_bounded_memory(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        large = Execution("c", ("x" * 10 * MIB,), OUTPUT)
        urls = [server.url(large) for _ in range(3)]
        with pytest.raises(Transient, match="too many"):
            server.url(large)
        assert len(set(urls)) == 3


@pytest.mark.parametrize("padding", [0, 5000])
def test_size_that_is_longer_than_any_makes_no_sense(padding: int) -> None:
    data = json.dumps({"Width": 80, "Height": 24, "x": "y" * padding}).encode()
    assert parse_size(data) == (None if padding else Size(80, 24))
