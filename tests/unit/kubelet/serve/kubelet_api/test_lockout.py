"""Clients with few or no permissions cannot lock out administrators; over real TLS."""

import asyncio
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp.streams import StreamReader
from msgspec.structs import replace

from pykubelet.base.http import hangup
from pykubelet.kubelet.serve.common import serving, slots
from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.serve.kubelet_api import AuthConfig, KubeletApiServer
from pykubelet.kubelet.serve.kubelet_api.access.token_review_budget import PER_SOURCE
from pykubelet.models import core_v1 as core
from pykubelet.models.authentication_v1 import UserInfo
from pykubelet.testing.wait import until
from tests.unit.kubelet.report.pods import container, pod, with_meta
from tests.unit.kubelet.serve.common.flood import silent_connections
from tests.unit.kubelet.serve.kubelet_api.world import Client, NodeWorld, Pki, client_of, running_server
from tests.unit.kubelet.serve.local_api.world import running
from tests.unit.kubelet.serve.logs.records import raw

FEW = ConnectionLimits(total=24, untrusted=12, untrusted_per_source=8)
FOLLOW = "/containerLogs/ns/web/app?follow=true"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def world(tmp_path: Path, pki: Pki) -> NodeWorld:
    world = NodeWorld(tmp_path, pki)
    world.set(running(), pod())
    (world.logs / "0.log").write_bytes(raw("one"))
    for name in ("first", "second"):
        world.reviews.users[name] = UserInfo(username=name)
        world.reviews.rights |= {(name, "get", "proxy"), (name, "get", "metrics")}
    return world


@asynccontextmanager
async def tls(
    world: NodeWorld, server: KubeletApiServer
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TLS connection without a client certificate."""
    context = ssl.create_default_context(cafile=str(world.authority.ca))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        writer.close()


async def status(client: Client, path: str, token: str = "") -> int:
    async with client.get(path, token) as response:
        await response.read()
        return response.status


def closed(world: NodeWorld, reason: str) -> float:
    """Return how many connections were closed for that reason."""
    line = f'pykubelet_http_connections_closed_total{{reason="{reason}",server_type="readwrite"}} '
    lines = world.metrics.render().decode().splitlines()
    return next((float(each.removeprefix(line)) for each in lines if each.startswith(line)), 0.0)


async def test_silent_tcp_connections_do_not_lock_out_an_admin(world: NodeWorld) -> None:
    issued = world.admin()
    async with running_server(world) as server, client_of(world, server, issued) as client:
        assert server.port is not None
        many = world.server_config.connections.total + 20
        async with silent_connections(("127.0.0.1", server.port), many):
            assert await status(client, "/pods") == 200
            assert await status(client, "/healthz") == 200
    assert closed(world, "evicted") >= many - world.server_config.connections.untrusted


async def test_silent_tls_connections_do_not_lock_out_an_admin(world: NodeWorld) -> None:
    issued = world.admin()
    world.change(connections=FEW)
    async with running_server(world) as server, client_of(world, server, issued) as client, AsyncExitStack() as stack:
        for _ in range(FEW.total + 4):
            await stack.enter_async_context(tls(world, server))
        assert await status(client, "/pods") == 200


@pytest.mark.parametrize(("token", "code"), [("unknown", b"401"), ("outsider", b"403")])
async def test_lingering_rejected_clients_do_not_lock_out_an_admin(world: NodeWorld, token: str, code: bytes) -> None:
    """Each client sends a request without valid credentials or permissions, and stays connected."""
    world.reviews.users["outsider"] = UserInfo(username="outsider")
    world.change(connections=FEW)
    issued = world.admin()
    request = f"GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    async with running_server(world) as server, client_of(world, server, issued) as client, AsyncExitStack() as stack:
        for _ in range(FEW.total + 4):
            reader, writer = await stack.enter_async_context(tls(world, server))
            writer.write(request)
            assert code in await reader.readline()
        for path in ("/pods", "/healthz", "/metrics"):
            assert await status(client, path) == 200


async def test_body_of_a_rejected_request_is_not_read(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing tiny chunks costs the server far more than the client, who needs no credentials for it."""
    parsed = 0
    feed = StreamReader.feed_data

    def count(reader: StreamReader, data: bytes, size: int = 0) -> bool:
        nonlocal parsed
        parsed += len(data)
        return feed(reader, data, size)

    monkeypatch.setattr(StreamReader, "feed_data", count)
    chunks, sent = b"1\r\nx\r\n" * 1000, 0
    async with running_server(world) as server, tls(world, server) as (reader, writer):
        writer.write(b"POST /run/ns/web/app?cmd=id HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        answered = asyncio.get_running_loop().create_task(reader.read())
        with suppress(ConnectionError):
            while not answered.done() and sent < 200_000:
                writer.write(chunks)
                sent += 1000
                await writer.drain()
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert b"401" in await answered
    assert parsed < 20_000


async def test_untrusted_connections_do_not_evict_the_connection_of_an_admin(world: NodeWorld) -> None:
    world.change(connections=FEW)
    issued = world.admin()
    async with running_server(world) as server, AsyncExitStack() as stack:
        context = ssl.create_default_context(cafile=str(world.authority.ca))
        context.load_cert_chain(issued.certificate, issued.key)
        session = await stack.enter_async_context(aiohttp.ClientSession(f"https://127.0.0.1:{server.port}"))
        async with session.get(FOLLOW, ssl=context) as follower:
            assert await follower.content.readline() == b"one\n"
            for _ in range(2):
                async with session.get("/pods", ssl=context) as response:
                    await response.read()
                    assert response.status == 200, await response.text()
                assert server.port is not None
                await stack.enter_async_context(silent_connections(("127.0.0.1", server.port), FEW.total + 4))
            world.log("two")
            assert await follower.content.readline() == b"two\n"


async def test_followed_logs_leave_room_for_short_requests_and_for_other_users(world: NodeWorld) -> None:
    world.change(slots=SlotLimits(short=4, short_per_user=2, streams=4, streams_per_user=3))
    issued = world.admin()
    async with running_server(world) as server, AsyncExitStack() as stack:
        client = await stack.enter_async_context(client_of(world, server))
        admin = await stack.enter_async_context(client_of(world, server, issued))
        for token, count in (("first", 3), ("second", 1)):
            for _ in range(count):
                response = await stack.enter_async_context(client.get(FOLLOW, token))
                assert response.status == 200, await response.text()
            for path in ("/healthz", "/pods", "/metrics"):
                assert await status(client, path, token) == 200, path
            assert await status(client, FOLLOW, token) == 429
        async with admin.get(FOLLOW) as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "1"
            assert "too many streams at once" in await response.text()
        for path in ("/healthz", "/pods", "/metrics"):
            assert await status(admin, path) == 200


async def test_commands_whose_output_is_held_are_few(world: NodeWorld) -> None:
    world.change(slots=SlotLimits(4, 4, 4, 4, commands=2, commands_per_user=1))
    world.reviews.rights |= {(name, "create", "proxy") for name in ("first", "second")}
    running_now = 0
    go_on = asyncio.Event()

    async def run(*_: object) -> tuple[int, bytes]:
        nonlocal running_now
        running_now += 1
        await go_on.wait()
        return 0, b"done\n"

    world.runtime.run = run  # type: ignore[method-assign,assignment]
    path = "/run/ns/web/app?cmd=ls"
    async with running_server(world) as server, client_of(world, server) as client, asyncio.TaskGroup() as group:

        async def command(token: str) -> int:
            async with client.request("POST", path, token) as response:
                return response.status

        first = group.create_task(command("first"))
        await until(lambda: running_now == 1)
        assert await command("first") == 429
        second = group.create_task(command("second"))
        await until(lambda: running_now == 2)
        assert await command("second") == 429
        assert await status(client, "/pods", "first") == 200
        go_on.set()
        assert (await first, await second) == (200, 200)


async def test_places_of_streams_are_free_again_when_they_end(world: NodeWorld) -> None:
    world.change(slots=SlotLimits(short=1, short_per_user=1, streams=1, streams_per_user=1))
    async with running_server(world) as server, client_of(world, server) as client:
        for _ in range(3):
            async with client.get(FOLLOW, "first") as response:
                assert response.status == 200, await response.text()
            await until(lambda: inflight(world) == 0)


def inflight(world: NodeWorld) -> float:
    lines = world.metrics.render().decode().splitlines()
    return sum(float(each.rpartition(" ")[2]) for each in lines if each.startswith("kubelet_http_inflight_requests{"))


async def test_clients_of_streams_are_asked_whether_they_still_live(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle: list[int] = []

    def recorded(transport: asyncio.Transport) -> None:
        hangup.keep_alive(transport)
        found: socket.socket = transport.get_extra_info("socket")
        idle.append(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))

    monkeypatch.setattr(slots, "keep_alive", recorded)
    async with running_server(world) as server, client_of(world, server) as client, client.get(FOLLOW, "first") as log:
        assert await log.content.readline() == b"one\n"
    assert idle == [15]


async def test_client_that_does_not_read_loses_its_place_at_the_deadline(world: NodeWorld) -> None:
    world.change(slots=SlotLimits(short=1, short_per_user=1, streams=1, streams_per_user=1, deadline=2.0))
    large = {"kind": "x" * 8_000_000}
    world.server_deps = replace(
        world.server_deps, effective=replace(world.server_deps.effective, configuration=lambda: large)
    )
    async with running_server(world) as server, client_of(world, server) as client, tls(world, server) as (_, writer):
        writer.write(b"GET /configz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer first\r\n\r\n")
        refused = False
        async with asyncio.timeout(30):
            while (found := await status(client, "/pods", "second")) == 429 or not refused:
                refused |= found == 429
        assert found == 200


async def test_clients_that_do_not_read_a_list_of_large_pods_take_little_memory(world: NodeWorld) -> None:
    text = tuple(core.EnvVar(name=f"V{number}", value="x" * 1000) for number in range(1000))
    for number in range(24):
        large = with_meta(pod(container("app", env=text)), name=f"large-{number:02}", uid=f"uid-large-{number}")
        world.set(running(), large)
    request = b"GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer first\r\n\r\n"
    async with running_server(world) as server, client_of(world, server) as client, AsyncExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(8):
            reader, writer = await stack.enter_async_context(tls(world, server))
            writer.write(request)
            assert b"200" in await reader.readline()
        assert tracemalloc.get_traced_memory()[0] < 64 << 20, "8 lists of 24 MB are not held"
        async with client.get("/pods", "second") as response:
            found = await response.json()
    assert [each["metadata"]["name"] for each in found["items"]] == [*(f"large-{n:02}" for n in range(24)), "web"]
    assert all(len(each["spec"]["containers"][0]["env"]) == 1000 for each in found["items"][:-1])


async def test_request_beyond_its_deadline_gets_an_error(world: NodeWorld) -> None:
    world.change(slots=SlotLimits(short=1, short_per_user=1, streams=1, streams_per_user=1, deadline=1.0))

    async def hangs() -> None:
        await asyncio.Event().wait()

    world.runtime.running_pods = hangs  # type: ignore[method-assign,assignment]
    async with running_server(world) as server, client_of(world, server) as client:
        async with client.get("/runningpods/", "first") as response:
            assert response.status == 503
            assert "GET /runningpods/ timed out after 1 s" in await response.text()
        assert await status(client, "/pods", "second") == 200


async def test_connection_without_another_request_is_closed(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_IDLE", 0.1)
    async with running_server(world) as server, tls(world, server) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401")
            await reader.read()


async def test_connections_are_forgotten_when_they_end(world: NodeWorld) -> None:
    world.change(connections=FEW, auth=AuthConfig())
    issued = world.admin()
    async with running_server(world) as server, client_of(world, server, issued) as client:
        for _ in range(FEW.total + 4):
            assert await status(client, "/pods") == 200
    assert closed(world, "evicted") == closed(world, "refused") == 0


async def test_made_up_tokens_do_not_keep_known_ones_out(world: NodeWorld) -> None:
    async with running_server(world) as server, client_of(world, server) as client:
        assert await status(client, "/pods", "first") == 200
        codes = {await status(client, "/pods", f"made-up-{number}") for number in range(PER_SOURCE[1] + 20)}
        assert codes == {401, 503}
        assert await status(client, "/pods", "first") == 200
    assert len(world.reviews.token_reviews) == PER_SOURCE[1]


async def test_token_with_stray_bytes_is_refused(world: NodeWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.change(auth=AuthConfig(anonymous=True))
    async with running_server(world) as server, tls(world, server) as (reader, writer):
        writer.write(b"GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer caf\xc3\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    assert "request failed" not in caplog.text
