"""exec, attach and port-forward on the command line."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from pykubelet.base.errors import Invalid, Permanent, PykubeletError, Transient
from pykubelet.base.http.upgrade import switching_response
from pykubelet.base.spdy import SpdyConnection, SpdyStream, StreamLink
from pykubelet.cli.app import cli
from pykubelet.cli.client.forwarding import Forwarding, forward
from pykubelet.cli.client.streams import CommandNotStarted, Session, exit_status, run_session
from pykubelet.cli.commands.pods.port_forward import parse_ports
from pykubelet.testing.wait import until


@pytest.mark.parametrize(
    ("text", "pair"), [("8080:80", (8080, 80)), ("80", (80, 80)), (":80", (0, 80)), ("65535:1", (65535, 1))]
)
def test_port_pair_of_the_command_line_is_parsed(text: str, pair: tuple[int, int]) -> None:
    assert parse_ports(text, {}) == pair


@pytest.mark.parametrize(("text", "pair"), [("http", (80, 80)), ("8080:http", (8080, 80)), (":http", (0, 80))])
def test_named_ports_are_parsed(text: str, pair: tuple[int, int]) -> None:
    assert parse_ports(text, {"http": 80, "db": 5432}) == pair


def test_unknown_port_name_lists_the_existing_ones() -> None:
    with pytest.raises(Invalid, match=r"no port named 'htp'; did you mean http\?; its named ports: http \(80\)"):
        parse_ports("8080:htp", {"http": 80})


@pytest.mark.parametrize("text", ["", ":", "80:", "0", "1:0", "65536", "1:65536", "1:2:3", "-1:5", "٣"])
def test_parse_ports_rejects_invalid_ports(text: str) -> None:
    with pytest.raises(Invalid, match="invalid ports"):
        parse_ports(text, {})


def test_exit_status_of_status_objects() -> None:
    assert exit_status(b'{"status":"Success"}') == 0
    failed = b'{"status":"Failure","details":{"causes":[{"reason":"x"},{"reason":"ExitCode","message":"7"}]}}'
    assert exit_status(failed) == 7
    with pytest.raises(Permanent, match="no such file"):
        exit_status(b'{"status":"Failure","message":"no such file"}')


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ('exec failed: unable to start container process: exec: "nosuch": executable file not found in $PATH', 127),
        ('exec: "/nosuch": stat /nosuch: no such file or directory: unknown', 127),
        ("executable file `nosuch` not found in $PATH: No such file or directory", 127),
        ('unable to start container process: exec: "/etc/passwd": permission denied', 126),
        ("exec /bin/other: exec format error", 126),
    ],
)
def test_commands_that_cannot_start_have_the_status_of_shells(message: str, status: int) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        exit_status(json.dumps({"status": "Failure", "message": message}).encode())
    assert caught.value.status == status
    assert caught.value.is_in(f"runc: {message}\n")
    assert not caught.value.is_in("output of a command")


def test_other_failures_have_no_status_of_a_command() -> None:
    with pytest.raises(Permanent) as caught:
        exit_status(b'{"status":"Failure","message":"open /run/x: no such file or directory"}')
    assert not isinstance(caught.value, CommandNotStarted)


def test_stream_commands_have_help() -> None:
    for name in ("exec", "attach", "port-forward"):
        assert CliRunner().invoke(cli, [name, "--help"]).exit_code == 0


def test_completion_without_an_agent_offers_nothing(tmp_path: Path) -> None:
    words = f"pykubelet --socket {tmp_path}/none attach x"
    environment = {"_PYKUBELET_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}
    done = CliRunner(env=environment).invoke(cli, [], prog_name="pykubelet")
    assert (done.exit_code, done.output.strip()) == (0, "")


class Agent:
    """A local API that answers port-forwards itself."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.head = b""
        self.stop = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        writer.write(switching_response([("Upgrade", "SPDY/3.1")]))
        async with asyncio.TaskGroup() as group:
            errors: dict[str, SpdyStream] = {}

            def accept(stream: SpdyStream) -> bool:
                number = stream.header("requestid")
                self.asked.append((stream.header("streamtype"), stream.header("port"), number))
                if stream.header("streamtype") == "error":
                    errors[number] = stream
                else:
                    group.create_task(self.answer(stream.header("port"), stream, errors[number]))
                return True

            async with SpdyConnection.over(StreamLink(reader, writer), accept):
                await self.stop.wait()
        writer.close()

    async def answer(self, port: str, data: SpdyStream, error: SpdyStream) -> None:
        if port == "9":
            await error.write(b"connection refused")
        else:
            await data.write(b"got " + await data.read())
        data.finish()
        error.finish()


@asynccontextmanager
async def _forwarding(tmp_path: Path, agent: Agent, *remotes: int) -> AsyncIterator[tuple[list[str], list[int]]]:
    path, said = tmp_path / "a.sock", list[str]()
    server = await asyncio.start_unix_server(agent.serve, path)
    wanted = Forwarding(path, "/portforward", "localhost", [(0, remote) for remote in remotes])
    async with server, asyncio.timeout(20):
        task = asyncio.ensure_future(forward(wanted, said.append))
        try:
            await until(lambda: len(said) >= len(remotes) or task.done())
            yield said, [int(found) for line in said for found in re.findall(r"127.0.0.1:(\d+) ->", line)]
            agent.stop.set()
            with pytest.raises(Transient, match="lost connection"):
                await task
        finally:
            agent.stop.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_port_forward_prints_the_local_ports_it_serves(tmp_path: Path) -> None:
    agent = Agent()
    async with _forwarding(tmp_path, agent, 80, 9) as (said, ports):
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
            writer.write(b"hello")
            assert await reader.read(-1) == b"got hello"
            writer.close()
            await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[1])
        assert await reader.read(-1) == b""
        writer.close()
        await writer.wait_closed()
        await until(lambda: "error: connection refused" in said)
    assert agent.head.startswith(b"POST /portforward HTTP/1.1\r\n")
    assert agent.asked[:4] == [("error", "80", "1"), ("data", "80", "1"), ("error", "80", "2"), ("data", "80", "2")]


async def test_port_forward_rejected_by_the_agent(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"message":"the pod has no sandbox"}'
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    path = tmp_path / "a.sock"
    async with await asyncio.start_unix_server(refuse, path):
        with pytest.raises(Permanent, match="the pod has no sandbox"):
            await forward(Forwarding(path, "/x", "localhost", [(0, 80)]), print)


async def test_port_forward_without_an_agent_fails(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="no agent responds"):
        await forward(Forwarding(tmp_path / "none", "/x", "localhost", [(0, 80)]), print)


async def test_port_forward_from_a_local_port_in_use_is_refused(tmp_path: Path) -> None:
    agent = Agent()
    taken = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    server = await asyncio.start_unix_server(agent.serve, tmp_path / "a.sock")
    async with taken, server:
        agent.stop.set()
        with pytest.raises(Permanent, match=f"cannot listen on 127.0.0.1 port {port}"):
            await forward(Forwarding(tmp_path / "a.sock", "/x", "127.0.0.1", [(port, 80)]), print)


@pytest.mark.parametrize(
    ("words", "said"), [("it is not running", "it is not running"), ("unable to upgrade", "(400)")]
)
async def test_rejected_session_reports_the_agents_message(tmp_path: Path, words: str, said: str) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"message": words}, status=400)

    application = web.Application()
    application.router.add_get("/exec", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.UnixSite(runner, tmp_path / "a.sock").start()
        with pytest.raises(PykubeletError, match=re.escape(said)):
            await asyncio.to_thread(run_session, Session(tmp_path / "a.sock", "/exec?command=x", False, False))
    finally:
        await runner.cleanup()
