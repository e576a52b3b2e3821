"""The live view on a pseudo-terminal, without an agent, and its client."""

import asyncio
import signal
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from pykubelet.base.errors import NotFound, Transient
from pykubelet.cli.app import cli
from pykubelet.cli.live.live_api import LiveApi
from pykubelet.testing.agent import environment
from pykubelet.testing.terminal import Terminal

ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


def view(socket: Path) -> Terminal:
    command = [sys.executable, "-m", "pykubelet.cli", "--socket", str(socket), "top", "-w"]
    return Terminal(command, {**environment(), "TERM": "xterm"}, size=(24, 80))


@pytest.mark.parametrize(
    ("typed", "number", "status"),
    [
        ("q", None, 0),
        ("\x03", None, 130),
        ("\x1c", None, -signal.SIGQUIT),
        ("", signal.SIGTERM, -signal.SIGTERM),
        ("", signal.SIGHUP, -signal.SIGHUP),
    ],
)
def test_terminal_is_restored_however_the_view_ends(
    tmp_path: Path, typed: str, number: signal.Signals | None, status: int
) -> None:
    with view(tmp_path / "none.sock") as terminal:
        before = terminal.settings()
        terminal.expect("waiting for the agent")
        terminal.expect("retrying: No such file or directory")
        assert not terminal.settings()[3] & termios.ECHO
        if typed:
            terminal.type(typed)
        else:
            assert number is not None
            terminal.process.send_signal(number)
        assert terminal.end() == status, terminal.shown[-2000:]
        assert terminal.shown.rstrip().endswith(LEFT)
        assert terminal.settings() == before


def test_view_is_shown_again_after_it_was_suspended(tmp_path: Path) -> None:
    script = (
        f"set -m; {sys.executable} -m pykubelet.cli --socket {tmp_path}/none.sock top -w; echo suspended; fg; echo $?"
    )
    with Terminal(["bash", "-c", script], {**environment(), "TERM": "xterm"}, size=(24, 80)) as terminal:
        for text in (ENTERED, "q quit"):
            terminal.expect(text)
        terminal.type("\x1a")
        for text in (LEFT, "suspended", ENTERED, "q quit"):
            terminal.expect(text)
        terminal.type("q")
        terminal.expect(LEFT)
        assert terminal.end() == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["node", "-w"], "cannot be used with node"),
        (["-w", "--containers", "-o", "json"], "cannot be used with --containers, -o"),
        (["-w", "--interval", "0.5"], "0.5 is not in the range"),
        ([], "name what to show"),
    ],
)
def test_top_refuses_flags_that_exclude_each_other(words: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["top", *words])
    assert (done.exit_code, message in done.output) == (2, True), done.output


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(socket: Path, handler: Handler) -> AsyncIterator[LiveApi]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(socket)).start()
    try:
        async with LiveApi(socket) as api:
            yield api
    finally:
        await runner.cleanup()


async def test_client_reads_objects_and_errors(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/none":
            return web.json_response({"message": "pod web not found"}, status=404)
        if request.path == "/text":
            return web.Response(text="hello")
        return web.json_response({"method": request.method, "query": dict(request.query)})

    async with served(tmp_path / "s", handler) as api:
        assert await api.get("/a", one=1, none=None) == {"method": "GET", "query": {"one": "1"}}
        assert await api.post("/a") == {"method": "POST", "query": {}}
        with pytest.raises(NotFound, match="pod web not found"):
            await api.get("/none")
        with pytest.raises(Transient, match="is no JSON"):
            await api.get("/text")
        with pytest.raises(NotFound):
            await anext(api.lines("/none"))
    async with LiveApi(tmp_path / "gone") as api:
        with pytest.raises(Transient, match="No such file or directory"):
            await api.get("/a")


async def test_client_reads_lines_of_any_length_and_ends_with_the_stream(tmp_path: Path) -> None:
    lines = [b"x" * 300_000, b"", b"second", b"without an end"]

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"\n".join(lines))
        return response

    async with served(tmp_path / "s", handler) as api:
        assert [line async for line in api.lines("/log")] == lines
        with pytest.raises(Transient, match="is no JSON"):
            await anext(api.watch("/api/v1/pods", "1"))


async def test_client_reports_a_stream_that_breaks(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "object": {}}\n')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(tmp_path / "s", handler) as api:
        changes = api.watch("/api/v1/pods", "1")
        assert await anext(changes) == ("ADDED", {})
        async with asyncio.timeout(20):
            with pytest.raises(Transient):
                await anext(changes)
