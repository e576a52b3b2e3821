"""The stream proxy between clients and streaming servers of several kinds."""

import asyncio
import json
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import aiohttp
import pytest
from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.base.http.hangup import abort_connection
from pykubelet.base.http.upgrade import request_head, request_upgrade, switching_response, taken_over
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink, StreamResetError, WebSocketLink
from pykubelet.base.units import MIB
from pykubelet.kubelet.serve.streams import StreamProxy, StreamSet, stream_proxy
from pykubelet.kubelet.serve.streams.stream_types import TUNNEL, V5
from pykubelet.testing.certificates import Authority
from pykubelet.testing.wait import settle, until

ALL = StreamSet(stdin=True, stdout=True, stderr=True)
SUCCESS = b'{"status":"Success"}'
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Backend:
    """A runtime's streaming server. ``v5``: how it handles a WebSocket with that protocol."""

    v5: Handler
    spdy: Callable[[dict[str, SpdyStream]], Awaitable[None]] | None = None
    requests: list[web.Request] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.headers["Upgrade"] == "websocket":
            return await self.v5(request)
        if self.spdy is None:
            raise web.HTTPNotFound(text="no such URL")
        streams: dict[str, SpdyStream] = {}
        made = asyncio.Event()

        def accept(stream: SpdyStream) -> bool:
            streams[stream.header("streamtype")] = stream
            made.set()
            return True

        async with taken_over(request) as (reader, writer):
            writer.write(switching_response([("Upgrade", "SPDY/3.1")]))
            async with SpdyConnection.over(StreamLink(reader, writer), accept) as connection:
                await made.wait()
                while len(streams) < int(request.query.get("streams", 4)):
                    made.clear()
                    await made.wait()
                await self.spdy(streams)
                if request.query.get("hold"):
                    await connection.ended.wait()
        self.ended.set()
        return web.Response()


async def refusing(_: web.Request) -> web.StreamResponse:
    """Behave like a server that knows none of the client's protocols."""
    raise web.HTTPForbidden(text="unsupported protocol")


async def choosing_v4(request: web.Request) -> web.StreamResponse:
    """Behave like a server that ignores the client's protocols."""
    socket = web.WebSocketResponse()
    socket.headers["Sec-WebSocket-Protocol"] = "v4.channel.k8s.io"
    await socket.prepare(request)
    await socket.receive()
    return socket


async def speaking_v5(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(V5,))
    await socket.prepare(request)
    async for message in socket:
        if message.data == b"\xff\0":
            await socket.send_bytes(b"\3" + SUCCESS)
            break
        await socket.send_bytes(b"\1" + message.data[1:])
    await socket.close()
    return socket


async def echoing(streams: dict[str, SpdyStream]) -> None:
    while data := await streams["stdin"].read():
        await streams["stdout"].write(data)
    await streams["stderr"].write(b"oops")
    streams["stdout"].finish()
    streams["stderr"].finish()
    await streams["error"].write(SUCCESS)
    streams["error"].finish()


@asynccontextmanager
async def _serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    application = web.Application()
    application.router.add_route("*", "/{path}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@dataclass
class Front:
    """The agent's server in front of the proxy."""

    session: aiohttp.ClientSession
    base: str
    proxy: StreamProxy
    running: list[web.Request]
    """Requests that are being served."""

    def connect(self, path: str = "exec", protocol: str = V5) -> aiohttp.client._WSRequestContextManager:
        return self.session.ws_connect(f"{self.base}/{path}", protocols=(protocol,), ssl=False)


@asynccontextmanager
async def _proxying(
    backend: Backend, query: str = "", streams: StreamSet = ALL, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Front]:
    proxy = StreamProxy()
    running: list[web.Request] = []
    async with asyncio.timeout(60), _serving(backend.handle) as port, aiohttp.ClientSession() as session:

        async def url() -> str:
            return f"http://127.0.0.1:{port}/token{query}"

        async def handler(request: web.Request) -> web.StreamResponse:
            running.append(request)
            try:
                if request.path == "/forward":
                    return await proxy.port_forward(request, url)
                return await proxy.command(request, url, streams)
            except PykubeletError as error:
                raise web.HTTPServiceUnavailable(text=str(error)) from error
            finally:
                running.remove(request)

        async with _serving(handler, tls) as front:
            yield Front(session, f"{'https' if tls else 'http'}://127.0.0.1:{front}", proxy, running)


async def _converse(front: Front, data: bytes = b"hello") -> dict[int, bytes]:
    got: dict[int, bytes] = {}
    async with front.connect() as socket:
        assert socket.protocol == V5
        await socket.send_bytes(b"\0" + data)
        await socket.send_bytes(b"\xff\0")
        async for message in socket:
            got[message.data[0]] = got.get(message.data[0], b"") + message.data[1:]
    return got


async def test_v5_passes_where_the_runtime_speaks_it() -> None:
    backend = Backend(speaking_v5)
    async with _proxying(backend) as front:
        for _ in range(2):
            assert await _converse(front) == {1: b"hello", 3: SUCCESS}
    assert [request.headers["Upgrade"] for request in backend.requests] == ["websocket", "websocket"]
    assert backend.requests[0].headers["Sec-WebSocket-Protocol"] == V5


@pytest.mark.parametrize("v5", [refusing, choosing_v4])
async def test_v5_is_translated_elsewhere_and_that_is_remembered(v5: Handler) -> None:
    backend = Backend(v5, echoing)
    async with _proxying(backend) as front:
        for size in (5, 300_000):
            assert await _converse(front, b"x" * size) == {1: b"x" * size, 2: b"oops", 3: SUCCESS}
    assert [request.headers["Upgrade"] for request in backend.requests] == ["websocket", "SPDY/3.1", "SPDY/3.1"]
    assert backend.requests[1].headers["X-Stream-Protocol-Version"] == "v4.channel.k8s.io"


async def test_sizes_of_terminals_are_translated() -> None:
    async def tell(streams: dict[str, SpdyStream]) -> None:
        await streams["stdout"].write(await streams["resize"].read())
        await streams["error"].write(SUCCESS)

    backend = Backend(refusing, tell)
    async with _proxying(backend, "?streams=4", StreamSet(True, True, False, True)) as front, front.connect() as socket:
        await socket.send_bytes(b'\4{"Width":1,"Height":2}')
        got = [message.data async for message in socket if len(message.data) > 1]
    assert got == [b'\1{"Width":1,"Height":2}', b"\3" + SUCCESS]


async def test_a_command_that_reads_no_more_does_not_end_the_session() -> None:
    reset, sent = asyncio.Event(), asyncio.Event()

    async def deaf(streams: dict[str, SpdyStream]) -> None:
        streams["stdin"].reset()
        reset.set()
        await sent.wait()
        await streams["error"].write(SUCCESS)

    async with _proxying(Backend(refusing, deaf)) as front, front.connect() as socket:
        await reset.wait()
        await settle()
        await socket.send_bytes(b"\0more")
        await settle()
        sent.set()
        assert [message.data async for message in socket if len(message.data) > 1] == [b"\3" + SUCCESS]


async def test_runtime_connection_is_closed_when_the_client_disconnects() -> None:
    async def wait(streams: dict[str, SpdyStream]) -> None:
        await streams["stdout"].write(b"there")

    backend = Backend(refusing, wait)
    async with _proxying(backend, "?hold=1") as front:
        async with front.connect() as socket:
            while (await socket.receive_bytes())[1:] != b"there":
                pass
        await backend.ended.wait()


async def _deaf_v5(request: web.Request) -> web.StreamResponse:
    """Behave like a runtime whose command does not read."""
    socket = web.WebSocketResponse(protocols=(V5,))
    await socket.prepare(request)
    assert request.transport is not None
    request.transport.pause_reading()
    try:
        await asyncio.Event().wait()
    finally:
        request.transport.abort()
    return socket


async def test_flooding_client_is_throttled_and_its_disconnect_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.http.hangup.STUCK", 0.1)
    async with _proxying(Backend(_deaf_v5)) as front:
        socket = await front.connect()
        sent = 0
        with suppress(TimeoutError):
            while sent < 64:
                async with asyncio.timeout(1):
                    await socket.send_bytes(b"\0" + b"x" * MIB)
                sent += 1
        assert sent < 32
        assert len(front.running) == 1
        connection = socket._response.connection
        assert connection is not None and connection.transport is not None
        reset = struct.pack("ii", 1, 0)
        connection.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, reset)
        connection.transport.abort()
        socket._response.close()
        await until(lambda: not front.running)


async def test_other_refusals_reach_the_client() -> None:
    async def unknown(_: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound(text="this URL was used already")

    backend = Backend(unknown)
    async with _proxying(backend) as front:
        for v5, upgrades in ((unknown, 1), (refusing, 3)):
            backend.v5 = v5
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await _converse(front)
            assert refused.value.status == 404
            assert len(backend.requests) == upgrades


async def test_unusable_streaming_server_gives_an_error() -> None:
    async def rubbish(request: web.Request) -> web.StreamResponse:
        async with taken_over(request) as (_, writer):
            writer.write(b"HELLO\r\n\r\n")
        return web.Response()

    async with _proxying(Backend(rubbish)) as front:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _converse(front)
        assert refused.value.status == 503


async def test_spdy_in_a_websocket_is_unpacked() -> None:
    async def answer(streams: dict[str, SpdyStream]) -> None:
        await streams["data"].write(b"got " + await streams["data"].read())
        streams["data"].finish()

    backend = Backend(refusing, answer)
    async with _proxying(backend, "?streams=2&hold=1") as front, front.connect("forward", TUNNEL) as socket:
        assert socket.protocol == TUNNEL
        link = WebSocketLink(socket)  # type: ignore[arg-type]  # aiohttp's types tell apart what this does not use
        async with SpdyConnection.over(link) as connection:
            await connection.open({"streamtype": "error"})
            data = await connection.open({"streamtype": "data"})
            await data.write(b"it")
            assert await data.read() == b"got it"
            assert await data.read() == b""
    assert backend.requests[0].headers["X-Stream-Protocol-Version"] == "portforward.k8s.io"


async def test_spdy_in_a_websocket_that_the_runtime_refuses() -> None:
    async with _proxying(Backend(refusing)) as front:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await front.connect("forward", TUNNEL)
        assert refused.value.status == 404


async def test_client_that_vanishes_waits_for_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime may keep the session although its input has ended; its clients' slots must not wait for that."""
    monkeypatch.setattr(stream_proxy, "_AFTER_EOF", 3600.0)
    released = asyncio.Event()

    async def keep(request: web.Request) -> web.StreamResponse:
        async with taken_over(request) as (reader, writer):
            writer.write(switching_response([("Upgrade", "websocket")]))
            await reader.read(-1)
            await released.wait()
        return web.Response()

    async with _proxying(Backend(keep)) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(front.base.rpartition(":")[2]))
        headers = [("Host", "x"), ("Connection", "Upgrade"), ("Upgrade", "websocket")]
        assert (await request_upgrade(reader, writer, request_head("GET", "/forward", headers))).status == 101
        abort_connection(writer)
        await until(lambda: not front.running)
        released.set()


async def test_client_may_close_its_sending_side_first() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        async with taken_over(request) as (reader, writer):
            writer.write(switching_response([("Upgrade", "websocket")]))
            writer.write(b"all: " + await reader.read(-1))
        return web.Response()

    async with _proxying(Backend(echo)) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(front.base.rpartition(":")[2]))
        headers = [("Host", "x"), ("Connection", "Upgrade"), ("Upgrade", "websocket")]
        assert (await request_upgrade(reader, writer, request_head("GET", "/forward", headers))).status == 101
        writer.write(b"words")
        writer.write_eof()
        assert await reader.read(-1) == b"all: words"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("v5", [speaking_v5, refusing])
async def test_streams_over_tls_carry_the_same_bytes(tmp_path: Path, v5: Handler) -> None:
    issued = Authority(tmp_path).issue("node", ["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    async with _proxying(Backend(v5, echoing), tls=tls) as front:
        got = await _converse(front, b"x" * 200_000)
    assert (got[1], json.loads(got[3])) == (b"x" * 200_000, {"status": "Success"})


async def test_streams_that_the_runtime_refuses() -> None:
    async def none(request: web.Request) -> web.StreamResponse:
        if request.headers["Upgrade"] == "websocket":
            return await refusing(request)
        async with taken_over(request) as (reader, writer):
            writer.write(switching_response([("Upgrade", "SPDY/3.1")]))
            async with SpdyConnection.over(StreamLink(reader, writer), lambda _: False) as connection:
                await connection.ended.wait()
        return web.Response()

    backend = Backend(refusing)
    backend.handle = none  # type: ignore[method-assign]
    async with _proxying(backend) as front:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _converse(front)
        assert refused.value.status == 503


def test_connection_reset_ends_the_session() -> None:
    assert issubclass(StreamResetError, ConnectionError)
