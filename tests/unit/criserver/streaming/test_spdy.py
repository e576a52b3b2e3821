"""exec, attach and port-forward over SPDY, bare and inside a WebSocket."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pykubelet.base.http.upgrade import UpgradeResponse, request_head, request_upgrade
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink, StreamResetError, WebSocketLink
from pykubelet.criserver.conmon import ConmonControl
from pykubelet.criserver.streaming import AttachTarget, Execution, Forward, StreamingServer, spdy_client
from pykubelet.testing.wait import until
from tests.unit.criserver.streaming.rig import INPUT, OUTPUT, TERMINAL, served

V4 = "v4.channel.k8s.io"


@asynccontextmanager
async def _upgraded(url: str, protocol: str = V4) -> AsyncIterator[tuple[UpgradeResponse, StreamLink]]:
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    headers = [("Host", target.netloc), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    headers += [("X-Stream-Protocol-Version", protocol)] if protocol else []
    try:
        response = await request_upgrade(reader, writer, request_head("POST", target.path, headers))
        yield response, StreamLink(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def _connected(url: str, protocol: str = V4) -> AsyncIterator[SpdyConnection]:
    async with _upgraded(url, protocol) as (answer, link), SpdyConnection.over(link) as connection:
        assert answer.status == 101
        yield connection


@asynccontextmanager
async def _client(
    server: StreamingServer, target: Execution | AttachTarget, kinds: Sequence[str], protocol: str = V4
) -> AsyncIterator[dict[str, SpdyStream]]:
    async with _upgraded(server.url(target), protocol) as (answer, link):
        assert answer.status == 101
        assert answer.headers["upgrade"] == "SPDY/3.1"
        assert answer.headers["x-stream-protocol-version"] == protocol.split(",")[-1].strip()
        async with SpdyConnection.over(link) as connection:
            yield {kind: await connection.open({"streamtype": kind}) for kind in kinds}


async def _all(stream: SpdyStream) -> bytes:
    got = b""
    while piece := await stream.read():
        got += piece
    return got


@pytest.mark.parametrize("kinds", [("error", "stdout", "stderr"), ("stderr", "stdout", "error")])
async def test_output_and_exit_code_are_sent_over_spdy(tmp_path: Path, kinds: Sequence[str]) -> None:
    async with served(tmp_path) as (server, _):
        run = Execution("c", ("sh", "-c", "echo out; echo err >&2; exit 5"), OUTPUT)
        async with _client(server, run, kinds) as streams:
            assert (await _all(streams["stdout"]), await _all(streams["stderr"])) == (b"out\n", b"err\n")
            answer = json.loads(await _all(streams["error"]))
            assert answer["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]
    assert list(tmp_path.iterdir()) == []


async def test_input_of_exec_ends_with_its_stream(tmp_path: Path) -> None:
    kinds, run = ("error", "stdin", "stdout"), Execution("c", ("cat",), INPUT)
    async with served(tmp_path) as (server, _), _client(server, run, kinds) as streams:
        await streams["stdin"].write(b"x" * 200_000)
        streams["stdin"].finish()
        assert await _all(streams["stdout"]) == b"x" * 200_000
        assert json.loads(await _all(streams["error"]))["status"] == "Success"


@pytest.mark.parametrize("protocol", ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"])
async def test_older_protocols_tell_failures_as_text(tmp_path: Path, protocol: str) -> None:
    async with served(tmp_path) as (server, _):
        run = Execution("c", ("false",), OUTPUT)
        async with _client(server, run, ("error", "stdout", "stderr"), protocol) as streams:
            assert await _all(streams["error"]) == b"command terminated with non-zero exit code: 1"
        async with _client(
            server, Execution("c", ("true",), OUTPUT), ("error", "stdout", "stderr"), protocol
        ) as streams:
            assert await _all(streams["error"]) == b""


async def test_a_terminal_has_a_size(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        run = Execution("c", ("sh", "-c", "until stty size | grep -x '22 77'; do sleep 0.02; done"), TERMINAL)
        async with _client(server, run, ("error", "stdin", "stdout", "resize")) as streams:
            await streams["resize"].write(b'rubbish}{"Width": 76, "Heig')
            await streams["resize"].write(b'ht": 21}\n{"Width": 77, "Height": 22}\n')
            assert b"22 77" in await _all(streams["stdout"])


async def test_the_first_protocol_that_both_know_is_spoken(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        run = Execution("c", ("true",), OUTPUT)
        async with _client(server, run, ("error", "stdout", "stderr"), "v9.channel.k8s.io, v4.channel.k8s.io"):
            pass


@pytest.mark.parametrize(("protocol", "code"), [("", 400), ("v9.channel.k8s.io", 403)])
async def test_protocols_that_cannot_be_spoken(tmp_path: Path, protocol: str, code: int) -> None:
    run = Execution("c", ("true",), OUTPUT)
    async with served(tmp_path) as (server, _), _upgraded(server.url(run), protocol) as (answer, _):
        assert answer.status == code
        if code == 403:
            assert answer.headers["x-accepted-stream-protocol-versions"] == V4


async def test_a_url_works_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        url = server.url(Execution("c", ("true",), OUTPUT))
        async with _upgraded(url) as (answer, _):
            assert answer.status == 101
        async with _upgraded(url) as (answer, _):
            assert answer.status == 404


async def test_unrequested_streams_are_refused(tmp_path: Path) -> None:
    run = Execution("c", ("true",), OUTPUT)
    async with served(tmp_path) as (server, _), _connected(server.url(run)) as connection:
        for kind in ("stdin", "rubbish", ""):
            with pytest.raises(StreamResetError):
                await connection.open({"streamtype": kind})
        await connection.open({"streamtype": "error"})
        with pytest.raises(StreamResetError):
            await connection.open({"streamtype": "error"})


async def test_a_client_that_makes_no_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spdy_client, "CREATION", 0.1)
    run = Execution("c", ("true",), OUTPUT)
    async with served(tmp_path) as (server, _), _connected(server.url(run)) as connection:
        await connection.ended.wait()
    assert list(tmp_path.iterdir()) == []


async def test_a_command_outlives_its_client(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _):
        run = Execution("c", ("sh", "-c", f"cat >/dev/null; touch {tmp_path}/over"), INPUT)
        async with _client(server, run, ("error", "stdin", "stdout")):
            pass
        await until((tmp_path / "over").exists)


async def test_spdy_attach_carries_input_and_output_of_the_monitor(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as monitor:
        monitor.bind(str(tmp_path / "attach"))
        monitor.listen()
        monitor.setblocking(False)
        loop = asyncio.get_running_loop()
        kinds, target = ("error", "stdin", "stdout"), AttachTarget("c", tmp_path, INPUT, ConmonControl(tmp_path))
        async with served(tmp_path) as (server, _), _client(server, target, kinds) as streams:
            connection, _ = await loop.sock_accept(monitor)
            with connection:
                await streams["stdin"].write(b"t" * 20_000)
                # No packet is larger than what conmon reads at once.
                assert [len(await loop.sock_recv(connection, 100_000)) for _ in range(3)] == [8192, 8192, 3616]
                streams["stdin"].finish()
                assert await loop.sock_recv(connection, 10) == b""
                await loop.sock_sendall(connection, b"\2shown")
                assert await streams["stdout"].read() == b"shown"
            assert await _all(streams["stdout"]) == b""
            assert json.loads(await _all(streams["error"]))["status"] == "Success"


@asynccontextmanager
async def _forwarding(server: StreamingServer) -> AsyncIterator[SpdyConnection]:
    async with _connected(server.url(Forward("s", None)), "portforward.k8s.io") as connection:
        yield connection


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    got = await reader.read(-1)
    writer.write(b"echo " + got)
    writer.close()


async def _open(connection: SpdyConnection, port: int, number: str) -> tuple[SpdyStream, SpdyStream]:
    headers = {"port": str(port)} | ({"requestid": number} if number else {})
    error = await connection.open(headers | {"streamtype": "error"})
    return error, await connection.open(headers | {"streamtype": "data"})


@pytest.mark.parametrize("numbers", [("0", "1"), ("", "")])
async def test_spdy_port_forward_echoes_on_each_connection(tmp_path: Path, numbers: tuple[str, str]) -> None:
    listener = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, served(tmp_path) as (server, _), _forwarding(server) as connection:
        for number in numbers:
            error, data = await _open(connection, port, number)
            await data.write(b"hi " * 100_000)
            data.finish()
            assert await _all(data) == b"echo " + b"hi " * 100_000
            assert await _all(error) == b""


async def test_port_forward_reaches_a_listener_on_ipv6(tmp_path: Path) -> None:
    listener = await asyncio.start_server(_echo, "::1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, served(tmp_path) as (server, _), _forwarding(server) as connection:
        _, data = await _open(connection, port, "7")
        data.finish()
        assert await _all(data) == b"echo "


async def test_port_forward_without_listener_fails(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, _), _forwarding(server) as connection:
        error, data = await _open(connection, 1, "0")
        words = await _all(error)
        assert b"error forwarding port 1 to pod s: cannot connect" in words
        assert b"::1: Connection refused" in words
        assert await _all(data) == b""


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "٣"},
        {"streamtype": "data", "port": "99999999999999999999"},
        {"streamtype": "data", "port": "00000165536"},
        {"streamtype": "data", "port": "000001" + "0" * 5000},
        {"streamtype": "rubbish", "port": "80"},
        {"port": "80"},
    ],
)
async def test_port_forward_streams_that_make_no_sense(tmp_path: Path, headers: dict[str, str]) -> None:
    encoded = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    async with served(tmp_path) as (server, _), _forwarding(server) as connection:
        with pytest.raises(StreamResetError):
            await connection.open(encoded)


async def test_half_a_pair_of_streams_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.criserver.streaming.forward_spdy.CREATION", 1.0)
    async with served(tmp_path) as (server, _), _forwarding(server) as connection:
        error = await connection.open({"streamtype": "error", "port": "80", "requestid": "4"})
        with pytest.raises(StreamResetError):
            await connection.open({"streamtype": "error", "port": "80", "requestid": "4"})
        assert await _all(error) == b"timed out waiting for streams"


async def test_the_pods_connection_ends_with_the_clients(tmp_path: Path) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        began.set()
        await reader.read(-1)
        ended.set()
        writer.close()

    listener = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with listener, served(tmp_path) as (server, _):
        async with _forwarding(server) as connection:
            _, data = await _open(connection, listener.sockets[0].getsockname()[1], "0")
            await data.write(b"x")
            await began.wait()
        await ended.wait()


async def test_port_forward_inside_a_websocket_carries_data(tmp_path: Path) -> None:
    listener = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, served(tmp_path) as (server, session):
        url, protocol = server.url(Forward("s", None)), "SPDY/3.1+portforward.k8s.io"
        async with session.ws_connect(url, protocols=(protocol,)) as socket:
            assert socket.protocol == protocol
            async with SpdyConnection.over(WebSocketLink(socket)) as connection:
                error, data = await _open(connection, port, "0")
                await data.write(b"hello")
                data.finish()
                assert await _all(data) == b"echo hello"
                assert await _all(error) == b""


async def test_a_connection_that_broke_off_is_freed_at_once(tmp_path: Path) -> None:
    """Left to the collector, dozens would pile up, each with the buffers of its headers' compression."""

    def connections() -> int:
        return sum(isinstance(each, SpdyConnection) for each in gc.get_objects())

    async with served(tmp_path) as (server, _):
        before = connections()
        gc.disable()
        try:
            for _ in range(5):
                with suppress(ConnectionError, StreamResetError):
                    url = server.url(Execution("c", ("cat",), INPUT))
                    async with _upgraded(url) as (_, link), SpdyConnection.over(link) as connection:
                        for kind in ("error", "stdin", "stdout"):
                            await connection.open({"streamtype": kind})
                        link._writer.transport.abort()
                del connection, link
            await until(lambda: connections() <= before)
        finally:
            gc.enable()


@pytest.mark.parametrize("kinds", [(), ("error",)])
async def test_exec_client_gone_before_its_streams_is_not_waited_for(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    async with served(tmp_path) as (server, _):
        async with _connected(server.url(Execution("c", ("cat",), INPUT))) as connection:
            for kind in kinds:
                await connection.open({"streamtype": kind})
        await until(lambda: not server._serving)
        assert server._sessions.taken == 0
    assert list(tmp_path.iterdir()) == []
