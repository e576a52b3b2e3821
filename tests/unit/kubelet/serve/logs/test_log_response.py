"""Reading and following logs through the server, over rotations, restarts and slow clients."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from pykubelet.models import core_v1 as core
from pykubelet.testing.wait import settle, until
from tests.unit.kubelet.report.pods import REF, pod
from tests.unit.kubelet.serve.local_api.world import World, ended, open_files, running, serving
from tests.unit.kubelet.serve.logs.records import raw, stamp

LOG = "/api/v1/namespaces/ns/pods/web/log"


async def text(world: World, query: str = "") -> str:
    async with serving(world) as served, served.get(f"{LOG}?{query}") as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/plain"
        return await response.text()


async def refusal(world: World, query: str = "", path: str = LOG) -> tuple[int, str]:
    async with serving(world) as served, served.get(f"{path}?{query}") as response:
        status = await response.json()
        assert (status["kind"], status["code"]) == ("Status", response.status)
        return response.status, status["message"]


async def test_log_is_limited_by_tail_bytes_and_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one", "two", "three")
    assert await text(world) == "one\ntwo\nthree\n"
    assert await text(world, "tailLines=2&timestamps=true") == f"{stamp(0)} two\n{stamp(0)} three\n"
    assert await text(world, "limitBytes=6") == "one\ntw"
    assert await text(world, "sinceTime=2030-01-01T00:00:00Z") == ""


@pytest.mark.parametrize(
    "target", [f"{LOG}?follow=true", LOG, "/api/v1/pods?watch=true&sendInitialEvents=true", "/api/v1/pods?watch=true"]
)
async def test_head_of_a_stream_is_answered_without_a_body(tmp_path: Path, target: str) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with serving(world):
        reader, writer = await asyncio.open_unix_connection(world.config.socket)
        try:
            writer.write(f"HEAD {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            async with asyncio.timeout(30):
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            await writer.wait_closed()
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""


async def test_a_long_log_comes_whole(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    lines = [f"{i} {'x' * 90}" for i in range(20_000)]
    world.log(*lines)
    assert (await text(world)).splitlines() == lines


async def test_previous_log_is_that_of_the_run_before(tmp_path: Path) -> None:
    world = World(tmp_path)
    last = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=1))
    status = running(restarts=2)
    (app,) = status.container_statuses
    world.log("first", attempt=1)
    world.log("second", attempt=2)
    world.set(core.PodStatus(phase="Running", container_statuses=(app,)))
    assert (await refusal(world, "previous=true"))[0] == 400
    app = core.ContainerStatus(
        name="app", ready=True, restart_count=2, container_id=app.container_id, state=app.state, last_state=last
    )
    world.set(core.PodStatus(phase="Running", container_statuses=(app,)))
    assert await text(world, "previous=true") == "first\n"
    assert await text(world, "previous=true&follow=true") == "first\n"
    assert await text(world) == "second\n"


@pytest.mark.parametrize(
    ("query", "path", "code", "message"),
    [
        ("", "/api/v1/namespaces/ns/pods/none/log", 404, 'pods "none" not found'),
        ("container=x", LOG, 400, "container x is not valid for pod web"),
        ("tailLines=x", LOG, 400, "tailLines"),
        ("", LOG, 404, "no longer exists"),
    ],
)
async def test_log_request_with_a_wrong_query_is_refused(
    tmp_path: Path, query: str, path: str, code: int, message: str
) -> None:
    world = World(tmp_path)
    world.set(running())
    got, said = await refusal(world, query, path)
    assert got == code
    assert message in said


@pytest.mark.parametrize("target", ["/etc/shadow", "../../../secret"])
async def test_a_log_file_that_is_a_link_is_refused(tmp_path: Path, target: str) -> None:
    world = World(tmp_path)
    world.set(running())
    (tmp_path / "secret").write_bytes(raw("secret"))
    (world.logs / "0.log").symlink_to(target)
    code, message = await refusal(world)
    assert code == 400
    assert "symbolic link" in message
    assert (await refusal(world, "follow=true"))[0] == 400


# -- following --------------------------------------------------------------------------------------------------------


class Follower:
    """A client that follows the log."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def line(self) -> str:
        async with asyncio.timeout(10):
            return (await self._response.content.readline()).decode()

    async def rest(self) -> str:
        async with asyncio.timeout(10):
            return (await self._response.read()).decode()


async def test_following_a_log_ends_with_its_container(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one", "two")
    async with serving(world) as served, served.get(f"{LOG}?follow=true&tailLines=1") as response:
        follower = Follower(response)
        assert await follower.line() == "two\n"
        for i in range(5):
            world.log(f"more {i}")
            assert await follower.line() == f"more {i}\n"
        with (world.logs / "0.log").open("ab") as file:
            file.write(raw("halves")[:40])
            file.flush()
            await settle()  # the server has read the half line
            file.write(raw("halves")[40:])
        assert await follower.line() == "halves\n"
        world.log("last")
        world.set(ended(phase="Succeeded"), pod(restart_policy="Never"))
        assert await follower.rest() == "last\n"


async def test_followed_log_continues_after_a_rotation(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with serving(world) as served, served.get(f"{LOG}?follow=true") as response:
        follower = Follower(response)
        assert await follower.line() == "one\n"
        path = world.logs / "0.log"
        with path.open("ab") as old:
            path.rename(world.logs / "0.log.20260101-000000")
            old.write(raw("written to the old file after its renaming"))
        assert await follower.line() == "written to the old file after its renaming\n"
        world.log("two")
        assert await follower.line() == "two\n"
        world.set(ended(phase="Failed"))
        assert await follower.rest() == ""


async def test_following_through_restarts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with serving(world) as served, served.get(f"{LOG}?follow=true") as response:
        follower = Follower(response)
        assert await follower.line() == "one\n"
        world.set(ended(1))
        with (world.logs / "0.log").open("ab") as file:
            file.write(raw("no end of line", tag="P"))
        world.log("two", attempt=1)
        world.set(running(restarts=1))
        assert await follower.line() == "no end of linetwo\n"
        world.log("three", attempt=2)
        assert await follower.line() == "three\n"
        world.statuses.remove(REF.uid)
        assert await follower.rest() == ""


async def test_following_a_container_that_does_not_run_again_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(ended(), pod(restart_policy="Never"))
    world.log("all")
    assert await text(world, "follow=true") == "all\n"
    assert await text(world, "follow=true&limitBytes=2") == "al"


async def test_a_file_that_becomes_a_link_ends_the_stream(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with serving(world) as served, served.get(f"{LOG}?follow=true") as response:
        follower = Follower(response)
        assert await follower.line() == "one\n"
        (world.logs / "1.log").symlink_to("/etc/shadow")
        with pytest.raises(aiohttp.ClientError):
            await follower.rest()


async def test_many_followers_leave_nothing_behind(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with serving(world) as served:
        async with served.get("/pykubelet/v1/version") as response:
            await response.read()
        before = open_files()
        for _ in range(5):
            responses = [await served.client.get(f"http://localhost{LOG}?follow=true") for _ in range(40)]
            assert await asyncio.gather(*(Follower(r).line() for r in responses)) == ["one\n"] * 40
            assert world.pods.table.watchers == 40
            for response in responses:
                response.close()
            await until(lambda: world.pods.table.watchers == 0)
        await until(lambda: open_files() <= before)


async def test_a_slow_client_does_not_fill_the_memory(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    line = raw("x" * 1000)
    with (world.logs / "0.log").open("wb") as file:
        for _ in range(20_000):
            file.write(line)
    async with serving(world) as served, served.get(LOG) as response:
        await response.content.readline()
        async with served.get("/pykubelet/v1/version") as other:
            assert other.status == 200, "others are served meanwhile"
        size = 0
        async for data in response.content.iter_any():
            size += len(data)
        assert size == 1001 * 19_999


async def test_stopping_the_server_ends_followers(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.set(running())
    world.log("one")
    async with asyncio.timeout(10), serving(world) as served, served.get(f"{LOG}?follow=true") as response:
        assert await Follower(response).line() == "one\n"
        served.stop()
        with pytest.raises(aiohttp.ClientError):
            await response.read()
    assert world.pods.table.watchers == 0
    assert not world.config.socket.exists()
