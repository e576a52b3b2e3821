"""Calls over ttRPC: replies, errors by code, limits, and a shim that ends."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.criserver.shim.task_client import Ended, Streams, TaskClient
from pykubelet.criserver.shim.ttrpc_client import ShimGone, connect
from pykubelet.criserver.shim.ttrpc_frames import LONGEST, REQUEST, Frame, FrameReader
from pykubelet.pb import shim_task_pb2 as api
from pykubelet.pb import ttrpc_pb2
from pykubelet.testing.wait import until
from tests.unit.criserver.shim.fakeshim import shim_at


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
        assert await client.create("c1", "/b", Streams(stdout="/out"), None) == 7
        assert await client.wait("c1") == Ended(3, 1_500_000_000_000_000_007)
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
