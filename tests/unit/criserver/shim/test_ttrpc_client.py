"""Calls over ttRPC: replies, errors by code, limits, a shim that ends, and one that answers nonsense."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.criserver.shim.task_client import FifoPaths, ProcessEnd, TaskClient
from pykubelet.criserver.shim.ttrpc_client import ShimGone, connect
from pykubelet.criserver.shim.ttrpc_frames import LONGEST, PIECE, REQUEST, RESPONSE, Frame, FrameReader
from pykubelet.pb import shim_task_pb2 as api
from pykubelet.pb import ttrpc_pb2
from pykubelet.testing.wait import until
from tests.unit.criserver.shim.fakeshim import shim_at, steps_until


def test_frames_are_split_wherever_the_bytes_are_cut() -> None:
    frames = [Frame(1, REQUEST, b""), Frame(3, REQUEST, b"abc"), Frame(5, REQUEST, bytes(1000))]
    data = b"".join(frame.encode() for frame in frames)
    assert data[:10] == b"\0\0\0\0\0\0\0\1\1\0"
    for size in (1, 3, 11, len(data)):
        reader = FrameReader()
        assert [each for at in range(0, len(data), size) for each in reader.feed(data[at : at + size])] == frames


def test_frame_that_is_too_long_is_rejected_before_it_is_received() -> None:
    with pytest.raises(Permanent, match="longer than"):
        list(FrameReader().feed((LONGEST + 1).to_bytes(4, "big") + bytes(6)))
    with pytest.raises(Permanent, match="longer than"):
        Frame(1, REQUEST, bytes(LONGEST + 1)).encode()


@pytest.mark.parametrize("version", [2, 3])
async def test_calls_name_the_service_of_the_version(tmp_path: Path, version: int) -> None:
    def created(payload: bytes) -> api.CreateTaskResponse:
        request = api.CreateTaskRequest.FromString(payload)
        assert (request.id, request.bundle, request.stdout, request.terminal) == ("c1", "/b", "/out", False)
        return api.CreateTaskResponse(pid=7)

    waited = api.WaitResponse(exit_status=3)
    waited.exited_at.FromNanoseconds(1_500_000_000_000_000_007)
    answers = {"Create": created, "Wait": lambda _: waited}
    async with shim_at(tmp_path / "s", answers, piece=3) as calls:
        connection = await connect(str(tmp_path / "s"), "shim")
        client = TaskClient(connection, version)
        assert await client.create("c1", "/b", FifoPaths(stdout="/out"), None) == 7
        assert await client.wait("c1") == ProcessEnd(3, 1_500_000_000_000_000_007)
        connection.close()
    assert calls == [(f"containerd.task.v{version}.Task", method) for method in ("Create", "Wait")]


@pytest.mark.parametrize(
    ("code", "error"), [(5, NotFound), (6, Conflict), (12, Unsupported), (14, Transient), (2, Permanent)]
)
async def test_errors_of_the_shim_have_the_class_of_their_code(
    tmp_path: Path, code: int, error: type[PykubeletError]
) -> None:
    answers = {"Start": lambda _: ttrpc_pb2.Status(code=code, message="no such process")}
    async with shim_at(tmp_path / "s", answers):
        connection = await connect(str(tmp_path / "s"), "shim")
        with pytest.raises(error, match="no such process") as raised:
            await TaskClient(connection, 2).start("c1")
        assert type(raised.value) is error
        connection.close()


async def test_end_of_the_shim_fails_its_calls_in_progress(tmp_path: Path) -> None:
    async with shim_at(tmp_path / "s", {"Wait": lambda _: None}) as calls:
        connection = await connect(str(tmp_path / "s"), "shim of s1")
        waits = [asyncio.ensure_future(TaskClient(connection, 2).wait(name)) for name in ("a", "b")]
        await until(lambda: len(calls) == 2)
        connection.close()
        for each in waits:
            with pytest.raises(ShimGone, match="shim of s1 has ended"):
                await each
        assert not connection.open
        with pytest.raises(ShimGone):
            await TaskClient(connection, 2).wait("c")


async def test_call_without_reply_ends_at_its_time_limit(tmp_path: Path) -> None:
    async with shim_at(tmp_path / "s", {"Kill": lambda _: None}):
        connection = await connect(str(tmp_path / "s"), "shim")
        request = api.KillRequest(id="c1")
        with pytest.raises(Transient, match="Kill did not end within"):
            await connection.call("t", "Kill", request, api.Nothing, namespace="k8s.io", timeout=0.01)
        connection.close()


async def test_socket_without_a_listener_means_that_the_shim_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ShimGone, match="has ended"):
        await connect(str(tmp_path / "missing"), "shim")


@asynccontextmanager
async def _serving(
    path: Path, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[None]:
    """A shim that does what ``answer`` does on each connection, and then keeps it open."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        await over.wait()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path))
    try:
        yield
    finally:
        over.set()
        server.close()


async def _request(reader: asyncio.StreamReader) -> int:
    """Read a request; return the number of its stream."""
    head = await reader.readexactly(10)
    await reader.readexactly(int.from_bytes(head[:4], "big"))
    return int.from_bytes(head[4:8], "big")


async def test_frames_that_are_no_response_do_not_lose_the_response_that_follows(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = await _request(reader)
        reply = ttrpc_pb2.Response(payload=api.WaitResponse(exit_status=3).SerializeToString()).SerializeToString()
        frames = [Frame(stream, 3, b"data"), Frame(77, RESPONSE, reply), Frame(stream, RESPONSE, reply)]
        for frame in [*frames, frames[-1]]:
            writer.write(frame.encode())

    async with _serving(tmp_path / "s", answer):
        connection = await connect(str(tmp_path / "s"), "shim")
        async with asyncio.timeout(20):
            assert await TaskClient(connection, 2).wait("c1") == ProcessEnd(3, 0)
        connection.close()


async def test_malformed_frame_ends_calls_although_the_shim_reads_no_requests(tmp_path: Path) -> None:
    reported = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await reported.wait()
        writer.write(b"\xff" * 10)

    async with _serving(tmp_path / "s", answer):
        connection = await connect(str(tmp_path / "s"), "shim of s1")
        update = {"pad": "x" * (2 << 20)}
        calls = [asyncio.ensure_future(TaskClient(connection, 2).update("c1", update)) for _ in range(3)]
        await asyncio.sleep(0)
        reported.set()
        async with asyncio.timeout(20):
            for each in calls:
                with pytest.raises(ShimGone, match="shim of s1 has ended"):
                    await each


async def test_shim_that_reads_no_requests_gets_no_more_of_them(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]

    async with _serving(tmp_path / "s", answer):
        connection = await connect(str(tmp_path / "s"), "shim")
        update = {"pad": "x" * (3 << 20)}
        calls = [asyncio.ensure_future(TaskClient(connection, 2).update("c1", update)) for _ in range(20)]
        async with asyncio.timeout(20):
            with pytest.raises(Transient, match="does not read its requests"):
                await calls[-1]
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        connection.close()


async def test_frames_of_one_shim_leave_other_tasks_their_turn(tmp_path: Path) -> None:
    flood = Frame(77, RESPONSE, b"").encode() * 50_000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = await _request(reader)
        writer.write(flood + Frame(stream, RESPONSE, ttrpc_pb2.Response().SerializeToString()).encode())

    async with _serving(tmp_path / "s", answer):
        connection = await connect(str(tmp_path / "s"), "shim")
        steps = await steps_until(TaskClient(connection, 2).kill("c1", 9))
        connection.close()
    assert steps >= len(flood) / PIECE


async def test_numbers_that_cri_cannot_express_are_replaced(tmp_path: Path) -> None:
    waited = api.WaitResponse(exit_status=2**32 - 1)
    waited.exited_at.seconds = 2**62
    async with shim_at(tmp_path / "s", {"Wait": lambda _: waited}):
        connection = await connect(str(tmp_path / "s"), "shim")
        assert await TaskClient(connection, 2).wait("c1") == ProcessEnd(255, 2**63 - 1)
        connection.close()


async def test_error_of_the_shim_is_shortened_and_printable(tmp_path: Path) -> None:
    answers = {"Start": lambda _: ttrpc_pb2.Status(code=2, message="a\x1b[2Jb" + "x" * (1 << 20))}
    async with shim_at(tmp_path / "s", answers):
        connection = await connect(str(tmp_path / "s"), "shim")
        with pytest.raises(Permanent, match=r"^a\\x1b\[2Jbx+$") as raised:
            await TaskClient(connection, 2).start("c1")
        assert len(str(raised.value)) < 3000
        connection.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES])
async def test_failure_of_the_server_to_connect_does_not_mean_that_the_shim_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", fail)
    with pytest.raises(Transient, match="cannot connect to shim") as raised:
        await connect(str(tmp_path / "s"), "shim")
    assert not isinstance(raised.value, ShimGone), "its containers would be killed"


async def test_shim_that_accepts_no_connections_is_not_gone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        first = await connect(str(tmp_path / "s"), "shim")
        with pytest.raises(Transient, match="does not accept connections") as raised:
            await connect(str(tmp_path / "s"), "shim")
        assert not isinstance(raised.value, ShimGone), "its containers would be killed"
        first.close()
