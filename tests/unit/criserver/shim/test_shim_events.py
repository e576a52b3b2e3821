"""Events that shims send: OOM kills are kept until they are asked for; anything else is answered and ignored."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.base.errors import Unsupported
from pykubelet.base.units import MIB
from pykubelet.criserver.shim.shim_events import ShimEvents
from pykubelet.criserver.shim.ttrpc_client import ShimGone, TtrpcConnection, connect
from pykubelet.criserver.shim.ttrpc_frames import PIECE, REQUEST, Frame
from pykubelet.pb import shim_task_pb2 as api
from pykubelet.pb import ttrpc_pb2
from pykubelet.pb.containerd_events_pb2 import TaskExit, TaskOOM
from tests.unit.criserver.shim.fakeshim import steps_until

_SERVICE = "containerd.services.events.ttrpc.v1.Events"


async def _forward(connection: TtrpcConnection, topic: str, event: TaskOOM | TaskExit) -> None:
    request = api.ForwardRequest()
    request.envelope.topic = topic
    request.envelope.event.value = event.SerializeToString()
    await connection.call(_SERVICE, "Forward", request, api.Nothing, namespace="k8s.io", timeout=10)


async def test_oom_events_are_kept_until_they_are_taken(tmp_path: Path) -> None:
    events = ShimEvents(tmp_path / "events")
    events.socket.touch()  # of a former server
    await events.open()
    connection = await connect(str(events.socket), "events")
    await _forward(connection, "/tasks/exit", TaskExit(container_id="other"))
    await _forward(connection, "/tasks/oom", TaskOOM(container_id="c1"))
    assert [events.take_oom(name) for name in ("other", "c1", "c1")] == [False, True, False]
    with pytest.raises(Unsupported, match="Events/Subscribe is not served here"):
        await connection.call(_SERVICE, "Subscribe", api.Nothing(), api.Nothing, namespace="k8s.io", timeout=10)
    connection.close()
    await events.close()
    with pytest.raises(ShimGone):
        await connect(str(events.socket), "events")


async def test_oom_events_of_a_shim_that_invents_containers_are_bounded(tmp_path: Path) -> None:
    events = ShimEvents(tmp_path / "events")
    await events.open()
    connection = await connect(str(events.socket), "events")
    await _forward(connection, "/tasks/oom", TaskOOM(container_id="long" * 100))
    async with asyncio.TaskGroup() as group:
        for number in range(5000):
            group.create_task(_forward(connection, "/tasks/oom", TaskOOM(container_id=f"c{number}")))
    assert not events.take_oom("long" * 100)
    assert not events.take_oom("c0"), "the oldest is forgotten"
    assert sum(events.take_oom(f"c{number}") for number in range(5000)) == 4096
    connection.close()
    await events.close()


async def test_events_of_one_shim_leave_other_tasks_their_turn(tmp_path: Path) -> None:
    events = ShimEvents(tmp_path / "events")
    await events.open()
    reader, writer = await asyncio.open_unix_connection(str(events.socket))
    frames = [Frame(2 * number + 1, REQUEST, b"").encode() for number in range(20_000)]
    flood = b"".join(frames)

    async def answered() -> None:
        writer.write(flood)
        for _ in frames:
            head = await reader.readexactly(10)
            await reader.readexactly(int.from_bytes(head[:4], "big"))

    assert await steps_until(answered()) >= len(flood) / PIECE
    writer.close()
    await events.close()


async def test_requests_of_a_shim_that_has_gone_put_no_line_each_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = ShimEvents(tmp_path / "events")
    await events.open()
    for _ in range(5):
        _, writer = await asyncio.open_unix_connection(str(events.socket))
        writer.write(Frame(1, REQUEST, b"").encode() * 5000)
        await writer.drain()
        writer.transport.abort()
    connection = await connect(str(events.socket), "events")
    await _forward(connection, "/tasks/oom", TaskOOM(container_id="c1"))
    connection.close()
    await events.close()
    assert [each.message for each in caplog.records if each.name == "asyncio"] == []


async def test_shim_that_reads_no_responses_is_not_read_from(tmp_path: Path) -> None:
    events = ShimEvents(tmp_path / "events")
    await events.open()
    _, writer = await asyncio.open_unix_connection(str(events.socket))
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.transport.set_write_buffer_limits(high=0)
    frame = Frame(1, REQUEST, ttrpc_pb2.Request(service="s" * 100, method="m").SerializeToString()).encode()
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 256 * MIB:
            async with asyncio.timeout(2):
                writer.write(frame * 10_000)
                await writer.drain()
            sent += len(frame) * 10_000
    assert sent < 64 * MIB, "its responses would fill the memory of the server"
    writer.transport.abort()
    await events.close()
