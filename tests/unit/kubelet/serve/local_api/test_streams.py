"""exec and attach: the client's connection joined to the runtime's streaming server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from pykubelet.kubelet.serve.streams import StreamOptions
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.serve.local_api.world import RunningServer, World, ended, open_files, running, serving

EXEC = "/api/v1/namespaces/ns/pods/web/exec"
QUERY = "container=app&command=sh&command=-c&command=echo%20hi&stdin=true&stdout=true"
PROTOCOL = "v4.channel.k8s.io"

Connection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def websocket_backend(world: World) -> AsyncIterator[list[web.Request]]:
    """A streaming server that echoes each channel until it is told to end."""
    requests: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        async for message in socket:
            if message.data == b"\x00end":
                await socket.send_bytes(b'\x03{"status":"Success"}')
                break
            await socket.send_bytes(b"\x01" + message.data[1:])
        await socket.close()
        return socket

    app = web.Application()
    app.add_routes([web.get("/exec/{token}", handler), web.get("/attach/{token}", handler)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        world.streams.url = f"http://127.0.0.1:{runner.addresses[0][1]}/exec/TOKEN?x=1"
        yield requests
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_backend(world: World, talk: Connection) -> AsyncIterator[None]:
    """A streaming server whose connection the test scripts."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    world.streams.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec/TOKEN"
    async with server:
        yield


async def raw_client(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that upgrades to SPDY, as kubectl does."""
    reader, writer = await asyncio.open_unix_connection(str(world.config.socket))
    head = (
        f"POST {EXEC}?{QUERY} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "Authorization: Bearer secret\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
        "X-Stream-Protocol-Version: v3.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    )
    writer.write(head.encode())
    return reader, writer


def connect(served: RunningServer, path: str = f"{EXEC}?{QUERY}") -> aiohttp.client._WSRequestContextManager:
    return served.client.ws_connect(f"http://localhost{path}", protocols=(PROTOCOL,))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.set(running())
    return made


async def test_websocket_of_exec_is_forwarded_to_the_runtime(world: World) -> None:
    async with websocket_backend(world) as requests, serving(world) as served, connect(served) as socket:
        assert socket.protocol == PROTOCOL
        for text in (b"hello", b"x" * 200_000):
            await socket.send_bytes(b"\x00" + text)
            assert await socket.receive_bytes() == b"\x01" + text
        await socket.send_bytes(b"\x00end")
        assert await socket.receive_bytes() == b'\x03{"status":"Success"}'
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        (request,) = requests
        assert (request.path_qs, request.method) == ("/exec/TOKEN?x=1", "GET")
        assert request.headers["Host"].startswith("127.0.0.1:")
    assert world.streams.asked == [
        (
            "exec",
            "app-0",
            StreamOptions(container="app", command=("sh", "-c", "echo hi"), stdin=True, stdout=True),
        )
    ]


async def test_attach_is_forwarded_to_the_runtime(world: World) -> None:
    path = "/api/v1/namespaces/ns/pods/web/attach?stdout=true&stderr=true"
    async with websocket_backend(world), serving(world) as served, connect(served, path) as socket:
        await socket.send_bytes(b"\x00a")
        assert await socket.receive_bytes() == b"\x01a"
    assert world.streams.asked == [("attach", "app-0", StreamOptions(stdout=True, stderr=True))]


async def test_any_protocol_passes_and_secrets_do_not(world: World) -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n")
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()

    async with raw_backend(world, talk), serving(world):
        reader, writer = await raw_client(world)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        writer.write(b"bytes")
        assert await reader.readexactly(5) == b"BYTES"
        writer.close()
        await writer.wait_closed()
    (head,) = heads
    assert head.startswith(b"POST /exec/TOKEN HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Upgrade: SPDY/3.1\r\n" in head
    # Old runtimes do not parse lists in one header line.
    assert b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: v3.channel.k8s.io\r\n" in head
    assert b"secret" not in head


async def test_output_is_complete_before_the_session_ends(world: World) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + b"x" * 3_000_000)
        await writer.drain()

    async with raw_backend(world, talk), serving(world):
        reader, writer = await raw_client(world)
        await reader.readuntil(b"\r\n\r\n")
        await settle()  # the runtime has sent as much as the client reads
        assert len(await reader.read(-1)) == 3_000_000
        writer.close()
        await writer.wait_closed()


async def test_a_refusal_of_the_runtime_reaches_the_client(world: World) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngone")
        await writer.drain()

    async with raw_backend(world, talk), serving(world) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(served)
        assert caught.value.status == 404


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("stdout=true", 400, "command"),
        ("command=ls", 400, "at least one"),
        ("command=ls&stdout=true&container=x", 400, "container x is not valid"),
        ("command=ls&stdout=true", 400, "unable to upgrade"),
    ],
)
async def test_exec_with_a_wrong_query_is_refused(world: World, query: str, code: int, message: str) -> None:
    async with serving(world) as served, served.get(f"{EXEC}?{query}") as response:
        assert response.status == code
        assert message in (await response.json())["message"]


async def test_a_container_that_does_not_run(world: World) -> None:
    world.set(ended())
    async with serving(world) as served, served.get(f"{EXEC}?{QUERY}") as response:
        assert response.status == 400
        assert 'container "app" in pod "web" is not running' in (await response.json())["message"]
    assert world.streams.asked == []


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://127.0.0.1:1/x", 503), ("https://127.0.0.1/x", 500), ("http://127.0.0.1/a b", 500), ("rubbish", 500)],
)
async def test_a_streaming_server_that_cannot_be_used(world: World, url: str, code: int) -> None:
    world.streams.url = url
    async with serving(world) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(served)
        assert caught.value.status == code
        async with served.get("/version") as response:
            assert response.status == 200


async def test_disconnects_leave_nothing_behind(world: World) -> None:
    open_now = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while await reader.read(65536):
            pass
        open_now -= 1

    async with raw_backend(world, talk), serving(world):
        before = open_files()
        for _ in range(10):
            clients = [await raw_client(world) for _ in range(20)]
            for reader, _ in clients:
                await reader.readuntil(b"\r\n\r\n")
            assert open_now == 20
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: open_now == 0)
        await until(lambda: open_files() <= before)


async def test_stopping_the_server_ends_sessions(world: World) -> None:
    async with asyncio.timeout(10), websocket_backend(world), serving(world) as served:
        socket = await connect(served)
        await socket.send_bytes(b"\x00a")
        assert await socket.receive_bytes() == b"\x01a"
        served.stop()
        assert (await socket.receive()).type is not aiohttp.WSMsgType.BINARY
        await socket.close()


async def test_port_forward_passes_all_ports_to_the_runtime(world: World) -> None:
    path = "/api/v1/namespaces/ns/pods/web/portforward?ports=80,443&ports=8080"
    async with websocket_backend(world), serving(world) as served, connect(served, path) as socket:
        await socket.send_bytes(b"\x00a")
        assert await socket.receive_bytes() == b"\x01a"
    assert world.streams.forwards == [("uid-1", (80, 443, 8080))]


@pytest.mark.parametrize("ports", ["0", "x", "65536", "00000165536", "1" + "0" * 5000, "1,", ",".join(["1"] * 65)])
async def test_invalid_ports_are_rejected(world: World, ports: str) -> None:
    path = f"/api/v1/namespaces/ns/pods/web/portforward?ports={ports}"
    async with serving(world) as served, served.get(path) as response:
        assert response.status == 400
        assert "are not port numbers" in (await response.json())["message"]
