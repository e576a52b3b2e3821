"""``pykubelet exec``: a command in a container, over the WebSocket protocol ``v4.channel.k8s.io``."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import click

from pykubelet.base.errors import Permanent, Transient
from pykubelet.cli.select import api_of, find_container, find_pod

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_PROTOCOL = "v4.channel.k8s.io"
_READ_BYTES = 32768


@dataclass(frozen=True, slots=True)
class _Session:
    """One exec: where, and which streams."""

    socket: Path
    path: str
    stdin: bool
    tty: bool


@click.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.argument("pod")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND [ARG]...")
@click.option("-c", "--container", default=None, help="The container (default: the first).")
@click.option("-n", "--namespace", default="", help="The pod's namespace.")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal.")
@click.pass_context
def command(
    ctx: click.Context,
    pod: str,
    argv: tuple[str, ...],
    container: str | None,
    namespace: str,
    stdin: bool,
    terminal: bool,
) -> None:
    """Run COMMAND in a container of POD; exits with the command's status."""
    if not argv:
        raise click.UsageError("a command is needed, for example: pykubelet exec POD -- ls /")
    api = api_of(ctx.obj)
    found = find_pod(api, pod, namespace)
    query = [("container", find_container(found, container)), ("stdout", "true")]
    query += [("command", word) for word in argv]
    query += [(key, "true") for key, given in (("stdin", stdin), ("tty", terminal), ("stderr", not terminal)) if given]
    path = f"/api/v1/namespaces/{found.metadata.namespace}/pods/{found.metadata.name}/exec?{urlencode(query)}"
    session = _Session(api.path, path, stdin, terminal and sys.stdin.isatty())
    with _raw_terminal(session.tty and stdin):
        status = asyncio.run(_run(session))
    ctx.exit(status)


@contextlib.contextmanager
def _raw_terminal(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


async def _run(session: _Session) -> int:
    connector = aiohttp.UnixConnector(path=str(session.socket))
    async with aiohttp.ClientSession(connector=connector) as client:
        try:
            channel = await client.ws_connect(f"http://localhost{session.path}", protocols=(_PROTOCOL,), max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            raise Permanent(f"the agent refused the exec: {error.message} ({error.status})") from error
        except aiohttp.ClientError as error:
            raise Transient(f"the agent at {session.socket} did not answer: {error}") from error
        async with channel:
            return await _converse(channel, session)


async def _converse(channel: aiohttp.ClientWebSocketResponse, session: _Session) -> int:
    """Copy the streams until the server tells the command's status."""
    async with asyncio.TaskGroup() as group:
        helpers = []
        if session.stdin:
            helpers.append(group.create_task(_send_stdin(channel), name="exec-stdin"))
        if session.tty:
            helpers.append(group.create_task(_send_sizes(channel), name="exec-resize"))
        status = await _receive(channel)
        for helper in helpers:
            helper.cancel()
    return status


async def _receive(channel: aiohttp.ClientWebSocketResponse) -> int:
    outputs = {_STDOUT: sys.stdout.buffer, _STDERR: sys.stderr.buffer}
    status: int | None = None
    async for message in channel:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        number, data = message.data[0], message.data[1:]
        if number == _ERROR and data:
            status = _exit_status(data)
        elif (output := outputs.get(number)) and data:
            output.write(data)
            output.flush()
    if status is None:
        raise Transient("the connection ended before the command's status was known")
    return status


def _exit_status(data: bytes) -> int:
    """The command's exit status from the error channel's Status object."""
    answer = json.loads(data)
    if answer.get("status") == "Success":
        return 0
    for cause in answer.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise Permanent(str(answer.get("message", "the command failed")))


async def _send_stdin(channel: aiohttp.ClientWebSocketResponse) -> None:
    """Copy standard input. v4 has no half-close: an ended input is followed by nothing more."""
    descriptor = sys.stdin.fileno()
    while True:
        await _readable(descriptor)
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            return
        await channel.send_bytes(bytes([_STDIN]) + data)


async def _readable(descriptor: int) -> None:
    """Wait until a read does not block. Each wait asks anew: news that is older than the last read would lie."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # A regular file is always readable and cannot be polled.
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _send_sizes(channel: aiohttp.ClientWebSocketResponse) -> None:
    """Tell the terminal's size now and whenever it changes."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    changed.set()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            await changed.wait()
            changed.clear()
            width, height = os.get_terminal_size(sys.stdin.fileno())
            size = json.dumps({"Width": width, "Height": height}).encode()
            await channel.send_bytes(bytes([_RESIZE]) + size)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
