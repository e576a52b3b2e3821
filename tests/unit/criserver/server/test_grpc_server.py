"""The server's socket: stale ones are replaced, used ones are a conflict."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.criserver.server import CriServer
from pykubelet.criserver.server.call_table import Calls
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.wait import until

# Listens, leaves the socket to a child, as a server does that is killed at the moment at which it starts a program,
# and tells the child's number.
_DYING = """
import os, socket, sys, time
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
child = os.fork()
if child == 0:
    os.close(1)
    time.sleep(60)
print(child)
"""


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


async def _serve(path: Path) -> None:
    """Serve on it until a client has got an answer."""
    server = asyncio.create_task(CriServer(path=path, runtime=(), images=()).run())
    try:
        await until(lambda: server.done() or (path.exists() and path.stat().st_mode & 0o777 == 0o660))
        if server.done():
            await server
        async with grpc.aio.insecure_channel(f"unix:{path}", (("grpc.default_authority", "localhost"),)) as channel:
            await channel.channel_ready()
    finally:
        server.cancel()
        await asyncio.wait({server})


async def test_stale_socket_held_by_a_child_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [sys.executable, "-c", _DYING, str(path)]
    child = int(await asyncio.to_thread(subprocess.check_output, command))
    try:
        assert _connects(path), "no process will ever answer"
        await _serve(path)
    finally:
        os.kill(child, signal.SIGKILL)


async def test_stale_socket_without_a_listener_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(path))
    assert not _connects(path)
    await _serve(path)


async def test_socket_of_a_running_server_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(Conflict, match="another server listens"):
            await _serve(path)
        assert _connects(path)


def test_socket_path_that_is_too_long_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="longer than 107"):
        CriServer(path=tmp_path / ("x" * 107), runtime=(), images=())


async def test_socket_has_its_mode_before_the_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the umask: only root and its group may connect, and they may from the first moment."""
    path, modes, make = tmp_path / "s", [], grpc.aio.server

    def watched(**options: Any) -> grpc.aio.Server:
        server = make(**options)
        start = server.start

        async def noted() -> None:
            modes.append(stat.S_IMODE(path.stat().st_mode))
            await start()

        monkeypatch.setattr(server, "start", noted)
        return server

    monkeypatch.setattr(grpc.aio, "server", watched)
    before = os.umask(0)
    try:
        await _serve(path)
        assert os.umask(0) == 0, "it is as it was"
    finally:
        os.umask(before)
    assert modes == [0o660]


class _UnansweredGroup:
    """A group with a call that is never answered."""

    def __init__(self) -> None:
        self.begun = 0

    def register(self, calls: Calls) -> None:
        calls.unary("Version", pb.VersionRequest, self._version)

    async def _version(self, _: pb.VersionRequest) -> pb.VersionResponse:
        self.begun += 1
        await asyncio.Event().wait()
        raise AssertionError


def _have_begun(group: _UnansweredGroup, number: int) -> bool:
    return group.begun == number


async def test_calls_of_one_connection_are_limited_and_another_is_served_meanwhile(tmp_path: Path) -> None:
    path, group = tmp_path / "s", _UnansweredGroup()
    server = asyncio.create_task(CriServer(path=path, runtime=(group,), images=()).run())
    try:
        await until(lambda: path.exists() and path.stat().st_mode & 0o777 == 0o660)
        _, writer = await asyncio.open_unix_connection(path)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0))
        for sent in range(1, 2001):  # a hostile client does not heed the limit that it is told
            number = 2 * sent - 1
            writer.write(
                _frame(_HEADERS, _END_HEADERS, number, _VERSION) + _frame(_DATA, _END_STREAM, number, bytes(5))
            )
            if sent <= 1000 and sent % 100 == 0:  # of more than 1000 that wait for the server, gRPC refuses some
                await until(partial(_have_begun, group, sent))
        await until(partial(_have_begun, group, 1024))
        async with grpc.aio.insecure_channel(f"unix:{path}", (("grpc.default_authority", "localhost"),)) as channel:
            call = channel.unary_unary("/runtime.v1.RuntimeService/Version", bytes, bytes)(b"")
            await until(partial(_have_begun, group, 1025))
            call.cancel()
        writer.close()
    finally:
        server.cancel()
        await asyncio.wait({server})


_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _field(name: str, value: str) -> bytes:
    """A literal field of HPACK (RFC 7541)."""
    return b"".join((b"\0", *(bytes((len(text),)) + text.encode() for text in (name, value))))


_VERSION = b"".join(
    _field(name, value)
    for name, value in {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/runtime.v1.RuntimeService/Version",
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }.items()
)
