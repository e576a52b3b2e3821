"""exec and attach over WebSocket, with an executor that runs plain programs."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.criserver.streaming import AttachTo, Execution, Forward, StreamingServer
from pykubelet.criserver.streaming.types import Streams
from pykubelet.criserver.streaming.websocket import parse_size, status

OUTPUT = Streams(stdin=False, stdout=True, stderr=True, terminal=False)
INPUT = Streams(stdin=True, stdout=True, stderr=False, terminal=False)
TERMINAL = Streams(stdin=True, stdout=True, stderr=False, terminal=True)


class PlainExecutor:
    """Runs the command on the machine; a shell notes the process number, as the OCI runtime does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    async def prepare(self, execution: Execution) -> tuple[list[str], Path, Path]:
        if execution.container == "ended":
            raise Permanent("container ended is exited, not running")
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        script = f'echo $$ > {folder}/pid; exec "$@"'
        return ["/bin/sh", "-c", script, "sh", *execution.command], folder / "pid", folder


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[tuple[StreamingServer, aiohttp.ClientSession]]:
    server = StreamingServer(PlainExecutor(folder), SystemClock())
    ready = asyncio.Event()
    task = asyncio.ensure_future(server.run(ready))
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(30):
            await ready.wait()
            yield server, session
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.01)


async def _talk(
    session: aiohttp.ClientSession, url: str, *sent: bytes, protocol: str = "v4.channel.k8s.io"
) -> dict[int, bytes]:
    got: dict[int, bytes] = {}
    async with session.ws_connect(url, protocols=(protocol,)) as client:
        for message in sent:
            await client.send_bytes(message)
        async for reply in client:
            got[reply.data[0]] = got.get(reply.data[0], b"") + reply.data[1:]
    return got


async def test_output_and_exit_code(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sh", "-c", "echo out; echo err >&2; exit 5"), OUTPUT))
        got = await _talk(session, url)
        assert (got[1], got[2]) == (b"out\n", b"err\n")
        assert json.loads(got[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _talk(session, url)
        assert refused.value.status == 404
    assert list(tmp_path.iterdir()) == []


async def test_input_ends_when_the_client_says_so(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("cat",), INPUT))
        got = await _talk(session, url, b"\0hello", b"\xff\0", protocol="v5.channel.k8s.io")
        assert got[1] == b"hello"
        assert json.loads(got[3])["status"] == "Success"


async def test_the_oldest_protocol_tells_failures_as_text(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        got = await _talk(session, server.url(Execution("c", ("false",), OUTPUT)), protocol="channel.k8s.io")
        assert got[3] == b"command terminated with non-zero exit code: 1"


async def test_a_terminal_has_a_size(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sh", "-c", "read x; stty size"), TERMINAL))
        got = await _talk(session, url, b'\4{"Width": 77, "Height": 22}', b"\0go\n")
        assert b"22 77" in got[1]


async def test_a_command_dies_with_its_client(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sleep", "60"), OUTPUT))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)):
            await _until(lambda: bool(list(tmp_path.glob("*/pid"))))
        # Its folder goes after it has been killed and reaped.
        await _until(lambda: not list(tmp_path.iterdir()))


async def test_why_a_command_cannot_run(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        got = await _talk(session, server.url(Execution("ended", ("true",), OUTPUT)))
        assert "not running" in json.loads(got[3])["message"]


async def test_attach_to_a_monitor(tmp_path: Path) -> None:
    bundle = tmp_path / ("bundle" * 30)
    bundle.mkdir()
    short = tmp_path / "b"
    short.symlink_to(bundle)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as monitor:
        monitor.bind(str(short / "attach"))
        monitor.listen()
        monitor.setblocking(False)
        async with _served(tmp_path) as (server, session):
            url = server.url(AttachTo("c", bundle, INPUT))
            talk = asyncio.ensure_future(_talk(session, url, b"\0typed"))
            connection, _ = await asyncio.get_running_loop().sock_accept(monitor)
            with connection:
                assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"typed"
                await asyncio.get_running_loop().sock_sendall(connection, b"\2shown")
                await asyncio.get_running_loop().sock_sendall(connection, b"\3not asked for")
            got = await talk
    assert got[1] == b"shown"
    assert 2 not in got


async def test_attach_to_nobody(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        got = await _talk(session, server.url(AttachTo("c", tmp_path, INPUT)))
        assert "cannot attach" in json.loads(got[3])["message"]


async def test_port_forward(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo " + await reader.read(100))
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, _served(tmp_path) as (server, session):
        url = f"{server.url(Forward('s', None))}?port={port}&port=1"
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as client:
            number = struct.pack("<H", port)
            assert await client.receive_bytes() == b"\0" + number
            assert await client.receive_bytes() == b"\1" + number
            assert [(await client.receive_bytes())[0] for _ in range(2)] == [2, 3]
            assert b"cannot connect to port 1" in await client.receive_bytes()
            await client.send_bytes(b"\0hi")
            assert await client.receive_bytes() == b"\0echo hi"


async def test_only_upgrades_are_served(tmp_path: Path) -> None:
    async with _served(tmp_path) as (server, session):
        async with session.get(server.url(Execution("c", ("true",), OUTPUT))) as reply:
            assert reply.status == 400
        async with session.get(server.url(Execution("c", ("true",), OUTPUT)) + "x") as reply:
            assert reply.status == 404


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"Width": 0, "Height": 5}', b'{"Width": 1e9, "Height": 5}', b'{"Width": "x"}']
)
def test_sizes_that_make_no_sense(data: bytes) -> None:
    assert parse_size(data) is None


def test_statuses() -> None:
    assert json.loads(status(0, "")) == {"metadata": {}, "status": "Success"}
    assert json.loads(status(1, "broken"))["reason"] == "InternalError"
