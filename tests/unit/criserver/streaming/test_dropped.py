"""Exec sessions that are opened and dropped by the hundred leave nothing behind."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pykubelet.base.http.upgrade import request_head
from pykubelet.base.spdy import Encoder
from pykubelet.base.spdy.frames import SynStream
from pykubelet.criserver.streaming import Execution, StreamingServer
from pykubelet.testing.wait import until
from tests.unit.criserver.streaming.rig import INPUT, served

_SESSIONS = 500
_PARALLEL = 25
_STREAMS = ("error", "stdin", "stdout")


async def _open(url: str, steps: int) -> socket.socket:
    """A client that does so much: connect, ask, wait for the answer, open its streams."""
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, (parts.hostname, parts.port))
    if steps > 0:
        headers = [("Host", parts.netloc), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
        headers.append(("X-Stream-Protocol-Version", "v4.channel.k8s.io"))
        await loop.sock_sendall(client, request_head("POST", parts.path, headers))
    if steps > 1:
        assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 101")
    if steps > 2:
        encoder = Encoder()
        for number, kind in enumerate(_STREAMS):
            await loop.sock_sendall(client, encoder.encode(SynStream(2 * number + 1, {"streamtype": kind})))
    return client


async def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def _half_close(client: socket.socket) -> None:
    """Send no more, and read until the server ends it."""
    client.shutdown(socket.SHUT_WR)
    while await asyncio.get_running_loop().sock_recv(client, 65536):
        pass
    client.close()


async def _close(client: socket.socket) -> None:
    client.close()


def _left(server: StreamingServer) -> dict[str, int]:
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "tasks": len(asyncio.all_tasks()),
        "serving": len(server._serving),
        "sessions": server._sessions.taken,
        "without a client": len(server._detached._wanted) + len(server._detached._ending),
        "tokens": len(server._tokens._waiting),
    }


@pytest.mark.parametrize("drop", [_reset, _half_close, _close], ids=["reset", "half-closed", "closed"])
async def test_exec_sessions_dropped_at_any_step_leave_nothing(
    tmp_path: Path, drop: Callable[[socket.socket], Awaitable[None]]
) -> None:
    async with served(tmp_path, seconds=120) as (server, _):
        # One in order first, so that what is made once is there.
        await _reset(await _open(server.url(Execution("c", ("cat",), INPUT)), 3))
        await until(lambda: not server._serving and not list(tmp_path.iterdir()))
        before = _left(server)
        slots = asyncio.Semaphore(_PARALLEL)

        async def session(number: int) -> None:
            async with slots:
                steps = number % 4
                if steps == 0 and drop is _half_close:
                    steps = 1  # one that never asks is closed after its patience only
                await drop(await _open(server.url(Execution("c", ("cat",), INPUT)), steps))

        await asyncio.gather(*(session(number) for number in range(_SESSIONS)))
        # URLs that were never asked for expire; that is the tokens' own test.
        server._tokens._waiting.clear()
        server._unauthenticated.close()  # type: ignore[union-attr]  # it runs
        # gRPC closes descriptors of earlier tests at any time, so that there may be fewer.
        await until(lambda: all(left <= before[what] for what, left in _left(server).items()), 60)
        assert list(tmp_path.iterdir()) == []
