"""Limits of the local API: many watches, silent connections, bad requests."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.serve.common.limits import SlotLimits
from pykubelet.testing.wait import until
from tests.unit.kubelet.serve.common.flood import silent_connections
from tests.unit.kubelet.serve.local_api.world import PODS, WatchClient, World, answer, running, serving


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_watches_beyond_the_limit_are_refused_and_short_requests_answered(tmp_path: Path) -> None:
    world = World(tmp_path)
    slots = SlotLimits(short=1, short_per_user=1, streams=3, streams_per_user=3)
    world.config = replace(world.config, slots=slots)
    async with serving(world) as served:
        watches = [WatchClient(served, f"{PODS}?watch=true") for _ in range(3)]
        for watch in watches:
            await watch.__aenter__()
        async with served.get(f"{PODS}?watch=true") as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
            status = await response.json()
            assert (status["reason"], "too many streams" in status["message"]) == ("TooManyRequests", True)
        assert (await answer(served, PODS))["kind"] == "PodList"
        assert (await answer(served, "/pykubelet/v1/healthz"))["healthy"]
        for watch in watches:
            await watch.__aexit__()
        await until(lambda: world.pods.table.watchers == 0)
        async with WatchClient(served, f"{PODS}?watch=true"):
            pass


async def test_silent_connections_do_not_lock_out_a_client(world: World) -> None:
    many = world.config.connections.total + 20
    async with serving(world) as served, silent_connections(str(world.config.socket), many):
        assert (await answer(served, PODS))["kind"] == "PodList"


async def test_silent_connections_do_not_evict_a_stream_that_has_just_begun(world: World) -> None:
    many = world.config.connections.total + 20
    flood = silent_connections(str(world.config.socket), many)
    async with serving(world) as served, WatchClient(served, f"{PODS}?watch=true") as watch, flood:
        world.set(running())
        assert await watch.next() == ("ADDED", "web")


async def test_bad_requests_are_answered_and_not_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(world):
        for bad in (b"GET  HTTP/1.1\r\n\r\n", b"\x00\x01\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000):
            reader, writer = await asyncio.open_unix_connection(str(world.config.socket))
            writer.write(bad)
            assert (await reader.readline()).startswith(b"HTTP/1.0 400"), bad[:20]
            writer.close()
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def test_floods_of_bad_requests(world: World) -> None:
    async with serving(world) as served:
        for junk in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, b"GET"):
            for _ in range(20):
                _, writer = await asyncio.open_unix_connection(str(world.config.socket))
                writer.write(junk)
                writer.transport.abort()
        body = b"x" * 1_000_000
        async with served.client.post(f"http://localhost{PODS}", data=body) as response:
            assert response.status == 405
        assert (await answer(served, PODS))["kind"] == "PodList"
