"""exec, attach and port-forward over WebSocket."""

import asyncio
import base64
import json
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from pykubelet.base.errors import NotFound
from pykubelet.base.proc import Child
from pykubelet.criserver.conmon import ConmonControl
from pykubelet.criserver.oci.command import parent_of
from pykubelet.criserver.streaming import AttachTarget, Execution, Forward, StreamingServer
from pykubelet.criserver.streaming.status import parse_size, status
from pykubelet.testing.wait import nothing_within, until
from tests.unit.criserver.streaming.rig import INPUT, OUTPUT, TERMINAL, served, strange_process


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


async def test_output_and_exit_code_are_sent_once_over_websocket(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sh", "-c", "echo out; echo err >&2; exit 5"), OUTPUT))
        got = await _talk(session, url)
        assert (got[1], got[2]) == (b"out\n", b"err\n")
        assert json.loads(got[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _talk(session, url)
        assert refused.value.status == 404
    assert list(tmp_path.iterdir()) == []


async def test_input_ends_when_the_client_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("cat",), INPUT))
        got = await _talk(session, url, b"\0hello", b"\xff\0", protocol="v5.channel.k8s.io")
        assert got[1] == b"hello"
        assert json.loads(got[3])["status"] == "Success"


async def test_the_oldest_protocol_tells_failures_as_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        got = await _talk(session, server.url(Execution("c", ("false",), OUTPUT)), protocol="channel.k8s.io")
        assert got[3] == b"command terminated with non-zero exit code: 1"


async def test_a_terminal_has_a_size(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sh", "-c", "read x; stty size"), TERMINAL))
        got = await _talk(session, url, b'\4{"Width": 77, "Height": 22}', b"\0go\n")
        assert b"22 77" in got[1]


async def test_a_command_outlives_its_client(tmp_path: Path) -> None:
    """As with the runtimes of the Go kubelet: its input ends, and it is not killed."""
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sh", "-c", "cat >/dev/null; exec sleep 60"), INPUT))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)):
            await until(lambda: any(each.read_text() for each in tmp_path.glob("*/pid")))
        pid = int(next(tmp_path.glob("*/pid")).read_text())
        await until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(pid, signal.SIGTERM)
        await until(lambda: not list(tmp_path.iterdir()))


async def test_without_its_client_a_command_waits_when_its_pipe_is_full(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("cat", "/dev/zero"), OUTPUT))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as client:
            while len(await client.receive_bytes()) <= 1:
                pass  # a greeting, which comes before the command runs
        pid = int(next(tmp_path.glob("*/pid")).read_text())
        await until(lambda: _state(pid) == "S")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not list(tmp_path.iterdir()))


async def test_oci_runtime_of_detached_exec_ends_with_its_command(tmp_path: Path) -> None:
    """As runc, which copies, and would wait for ever."""
    copier = 'sleep 60 & echo $! > "$0"; exec cat /dev/zero'
    async with served(tmp_path, copier) as (server, session):
        async with session.ws_connect(server.url(Execution("c", ("x",), OUTPUT)), protocols=("v4.channel.k8s.io",)):
            await until(lambda: any(file.read_text() for file in tmp_path.glob("*/pid")))
        command = int(next(tmp_path.glob("*/pid")).read_text())
        parent = parent_of(command)
        assert parent is not None
        await until(lambda: _state(parent) == "S")
        os.kill(command, signal.SIGKILL)
        await until(lambda: not list(tmp_path.iterdir()))
        assert not Path(f"/proc/{parent}").exists()


async def test_ended_server_spares_a_process_that_has_a_commands_number(tmp_path: Path) -> None:
    with strange_process() as other:
        words = f'echo {other.pid} > "$0"; exec sleep 60'
        async with (
            served(tmp_path, words) as (server, session),
            session.ws_connect(server.url(Execution("c", ("x",), OUTPUT)), protocols=("v4.channel.k8s.io",)),
        ):
            await until(lambda: any(file.read_text() for file in tmp_path.glob("*/pid")))
        assert other.poll() is None


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_the_server_ends_its_commands(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("sleep", "60"), OUTPUT))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)):
            await until(lambda: any(each.read_text() for each in tmp_path.glob("*/pid")))
        pid = int(next(tmp_path.glob("*/pid")).read_text())
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_only_so_many_commands_outlive_their_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.criserver.streaming.server._MAX_DETACHED", 2)
    async with served(tmp_path) as (server, session):
        pids = []
        for number in range(1, 4):
            url = server.url(Execution("c", ("sleep", "60"), OUTPUT))
            async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)):
                await until((tmp_path / str(number) / "pid").exists)
                await until(lambda file=tmp_path / str(number) / "pid": bool(file.read_text()))  # type: ignore[misc]
                pids.append(int((tmp_path / str(number) / "pid").read_text()))
            left = min(number, 2)
            await until(lambda least=left: len(server._detached._wanted) >= least)  # type: ignore[misc]
        await until(lambda: not Path(f"/proc/{pids[0]}").exists())
        assert all(Path(f"/proc/{pid}").exists() for pid in pids[1:])
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_a_slow_client_gets_all_output(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("head", "-c", "8000000", "/dev/zero"), OUTPUT))
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",), max_msg_size=0) as client:
            # Longer than a command's output is waited for after its end.
            await nothing_within(lambda: client.closed, 2.5)
            got = 0
            async for message in client:
                got += len(message.data) - 1 if message.data[0] == 1 else 0
        assert got == 8_000_000


async def test_text_protocol_carries_base64_and_skips_what_is_not(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("head", "-n", "1"), INPUT))
        got: dict[str, bytes] = {}
        async with session.ws_connect(url, protocols=("v4.base64.channel.k8s.io",)) as client:
            await client.send_str("0" + "not base64!")
            await client.send_str("0" + base64.b64encode(b"hello\n").decode())
            async for message in client:
                got[message.data[0]] = got.get(message.data[0], b"") + base64.b64decode(message.data[1:])
        assert got["1"] == b"hello\n"
        assert json.loads(got["3"])["status"] == "Success"


async def test_unknown_protocols_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _talk(session, server.url(Execution("c", ("true",), OUTPUT)), protocol="v9.channel.k8s.io")
        assert refused.value.status == 403


async def test_a_url_is_of_one_kind(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = server.url(Execution("c", ("true",), OUTPUT)).replace("/exec/", "/attach/")
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await _talk(session, url)
        assert refused.value.status == 404


async def test_urls_are_on_loopback(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        assert server.url(Execution("c", ("true",), OUTPUT)).startswith("http://127.0.0.1:")


async def test_exec_in_an_ended_container_fails_with_the_reason(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        got = await _talk(session, server.url(Execution("ended", ("true",), OUTPUT)))
        assert "not running" in json.loads(got[3])["message"]


async def test_an_oci_runtime_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(*_: object, **__: object) -> Child:
        raise NotFound("cannot run runc: it does not exist")

    monkeypatch.setattr("pykubelet.criserver.streaming.commands.oci_session.spawn", missing)
    async with served(tmp_path) as (server, session):
        for streams in (OUTPUT, TERMINAL):
            got = await _talk(session, server.url(Execution("c", ("true",), streams)))
            assert "cannot run runc" in json.loads(got[3])["message"]
    assert list(tmp_path.iterdir()) == []


async def test_attach_reads_the_output_of_the_monitor(tmp_path: Path) -> None:
    bundle = tmp_path / ("bundle" * 30)
    bundle.mkdir()
    short = tmp_path / "b"
    short.symlink_to(bundle)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as monitor:
        monitor.bind(str(short / "attach"))
        monitor.listen()
        monitor.setblocking(False)
        async with served(tmp_path) as (server, session):
            url = server.url(AttachTarget("c", bundle, INPUT, ConmonControl(bundle)))
            talk = asyncio.ensure_future(_talk(session, url, b"\0typed"))
            connection, _ = await asyncio.get_running_loop().sock_accept(monitor)
            with connection:
                assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"typed"
                await asyncio.get_running_loop().sock_sendall(connection, b"\2shown")
                await asyncio.get_running_loop().sock_sendall(connection, b"\3not asked for")
            got = await talk
    assert got[1] == b"shown"
    assert 2 not in got


async def test_attach_without_conmon_socket_fails(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        got = await _talk(session, server.url(AttachTarget("c", tmp_path, INPUT, ConmonControl(tmp_path))))
        assert "cannot attach" in json.loads(got[3])["message"]


async def test_websocket_port_forward_echoes_on_the_channel_of_each_port(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo " + await reader.read(100))
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, served(tmp_path) as (server, session):
        url = f"{server.url(Forward('s', None))}?port={port}&port=1"
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as client:
            number = struct.pack("<H", port)
            assert await client.receive_bytes() == b"\0" + number
            assert await client.receive_bytes() == b"\1" + number
            assert [(await client.receive_bytes())[0] for _ in range(2)] == [2, 3]
            assert b"cannot connect to port 1 of the pod: 127.0.0.1: Connection refused" in await client.receive_bytes()
            await client.send_bytes(b"\0hi")
            assert await client.receive_bytes() == b"\0echo hi"


async def test_port_forward_leaves_out_what_is_no_port(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        url = f"{server.url(Forward('s', None))}?port={'9' * 5000}&port=00000165536&port=0&port=1"
        async with session.ws_connect(url, protocols=("v4.channel.k8s.io",)) as client:
            assert await client.receive_bytes() == b"\0" + struct.pack("<H", 1)


async def test_only_upgrades_areserved(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, session):
        async with session.get(server.url(Execution("c", ("true",), OUTPUT))) as reply:
            assert reply.status == 400
        async with session.get(server.url(Execution("c", ("true",), OUTPUT)) + "x") as reply:
            assert reply.status == 404


async def _connected(server: StreamingServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = server.url(Execution("c", ("true",), OUTPUT)).split("/")[2].partition(":")
    return await asyncio.open_connection(host, int(port))


async def test_connections_without_url_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any process of the machine can connect, and must not use up the server's descriptors."""
    monkeypatch.setattr("pykubelet.base.http.unauthenticated.MOST", 3)
    async with served(tmp_path) as (server, session):
        idle = [await _connected(server) for _ in range(5)]
        assert [await reader.read() for reader, _ in idle[:2]] == [b"", b""]
        got = await _talk(session, server.url(Execution("c", ("echo", "served"), OUTPUT)))
        assert got[1] == b"served\n"
        for _, writer in idle:
            writer.close()


async def test_connections_without_url_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.http.unauthenticated.PATIENCE", 1.0)
    async with served(tmp_path) as (server, session):
        silent, guessing = await _connected(server), await _connected(server)
        guessing[1].write(b"GET /exec/guessed HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await guessing[0].readuntil(b"\r\n")).startswith(b"HTTP/1.1 404")
        slow = await session.ws_connect(
            server.url(Execution("c", ("sh", "-c", "sleep 2; echo still here"), OUTPUT)),
            protocols=("v4.channel.k8s.io",),
        )
        for reader, writer in (silent, guessing):
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        assert b"\1still here\n" in [message.data async for message in slow]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"Width": 0, "Height": 5}', b'{"Width": 1e9, "Height": 5}', b'{"Width": "x"}']
)
def test_sizes_that_make_no_sense(data: bytes) -> None:
    assert parse_size(data) is None


def test_status_is_success_or_an_internal_error() -> None:
    assert json.loads(status(0, "")) == {"metadata": {}, "status": "Success"}
    assert json.loads(status(1, "broken"))["reason"] == "InternalError"
