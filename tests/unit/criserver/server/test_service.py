"""The server's socket: stale ones are replaced, used ones are a conflict."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.criserver.server import CriServer
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
