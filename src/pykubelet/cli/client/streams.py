"""Connects the user's terminal to an exec or attach session, over WebSocket protocol ``v5.channel.k8s.io``."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, TextIO

import aiohttp

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.exit_status import ExitStatus
from pykubelet.cli.terminal import echo

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PROTOCOL = "v5.channel.k8s.io"
_READ_BYTES = 32768
_KEPT_BYTES = 4096
_NOT_STARTED = (
    (
        ExitStatus.NOT_FOUND,
        re.compile(r'executable file [^:]{0,200}not found|exec: "[^"]*": (?:stat [^:]*: )?no such file or directory'),
    ),
    (
        ExitStatus.NOT_EXECUTABLE,
        re.compile(
            r'exec: "[^"]*": (?:permission denied|is a directory)|exec format error|open executable: [^:]*denied'
        ),
    ),
)
"""Messages of OCI runtimes for a command that does not exist, and for one that the kernel does not execute."""


class Sink(Protocol):
    """Receiver of the output of a command."""

    def write(self, data: bytes, /) -> object:
        """Write all data."""

    def flush(self) -> object:
        """Pass on what has been written."""


@dataclass(frozen=True, slots=True)
class Session:
    """One exec or attach: its URL, and which streams."""

    socket: Path
    path: str
    """Path of the request, with its query."""
    stdin: bool
    tty: bool
    """Standard input is a terminal: it is set to raw mode, and its size is sent."""
    source: IO[bytes] | None = None
    """Input that is sent instead of this process's standard input."""
    sink: Sink | None = None
    """Destination of the command's standard output instead of this process's."""


def run_session(session: Session) -> int:
    """Run a session to its end and return the exit status. Permanent: rejected; Transient: connection lost."""
    with _raw_terminal(session.tty and session.stdin):
        return asyncio.run(_run(session))


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


async def _run(session: Session) -> int:
    connector = aiohttp.UnixConnector(path=str(session.socket))
    async with aiohttp.ClientSession(connector=connector) as client:
        try:
            channel = await client.ws_connect(f"http://localhost{session.path}", protocols=(_PROTOCOL,), max_msg_size=0)
        except aiohttp.WSServerHandshakeError as error:
            raise await blocking.call("cli", _refusal, session, error) from error
        except aiohttp.ClientError as error:
            raise Transient(f"the agent at {session.socket} is not responding: {error}") from error
        async with channel:
            return await _exchange(channel, session)


def _refusal(session: Session, error: aiohttp.WSServerHandshakeError) -> PykubeletError:
    """Return why the agent rejected the request.

    aiohttp drops the message, so the request is repeated without an upgrade.
    """
    try:
        LocalApi(session.socket).get(session.path)
    except PykubeletError as words:
        if not str(words).startswith("unable to upgrade"):
            return words
    return Permanent(f"the agent rejected the request: {error.message} ({error.status})")


async def _exchange(channel: aiohttp.ClientWebSocketResponse, session: Session) -> int:
    helpers = []
    if session.stdin:
        helpers.append(asyncio.create_task(_send_stdin(channel, session.source or sys.stdin), name="stdin"))
    if session.tty:
        helpers.append(asyncio.create_task(_send_sizes(channel), name="resize"))
    try:
        return await _receive(channel, session.sink or sys.stdout.buffer)
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


async def _receive(channel: aiohttp.ClientWebSocketResponse, stdout: Sink) -> int:
    """Write the output, and return the exit status. Permanent: the command failed in another way."""
    outputs: dict[int, Sink] = {_STDOUT: stdout, _STDERR: sys.stderr.buffer}
    status: bytes | None = None
    shown = b""
    async for message in channel:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        number, data = message.data[0], message.data[1:]
        if number == _ERROR and data:
            status = data
        elif (output := outputs.get(number)) and data:
            output.write(data)
            output.flush()
            shown = (shown + data)[-_KEPT_BYTES:]
    if status is None:
        raise Transient("the connection ended before the command's status was known")
    try:
        return exit_status(status)
    except CommandNotStarted as error:
        # An OCI runtime has written its error to the command's stderr already.
        if not error.is_in(shown.decode(errors="replace")):
            echo(f"error: {error}", err=True)
        return error.status


class CommandNotStarted(Permanent):
    """The OCI runtime could not execute the command. Its words differ: they are those of runc, crun and the kernel."""

    def __init__(self, message: str, status: ExitStatus, cause: str) -> None:
        super().__init__(message)
        self.status = status
        self._cause = cause

    def is_in(self, output: str) -> bool:
        """Return whether the output says the same."""
        return self._cause in output


def exit_status(data: bytes) -> int:
    """Return the exit status from the error channel's Status object.

    CommandNotStarted: the command does not exist or cannot be executed. Permanent: another failure.
    """
    answer = json.loads(data)
    if answer.get("status") == "Success":
        return 0
    for cause in answer.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    message = str(answer.get("message", "the command failed"))
    for status, pattern in _NOT_STARTED:
        if found := pattern.search(message):
            raise CommandNotStarted(message, status, found[0])
    raise Permanent(message)


async def _send_stdin(channel: aiohttp.ClientWebSocketResponse, source: IO[bytes] | TextIO) -> None:
    """Send standard input, and its end."""
    descriptor = source.fileno()
    with contextlib.suppress(ConnectionError):
        while True:
            await readable(descriptor)
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                await channel.send_bytes(bytes([_CLOSE, _STDIN]))
                return
            await channel.send_bytes(bytes([_STDIN]) + data)


async def readable(descriptor: int) -> None:
    """Wait until a read does not block. Each call polls again, since an earlier result may be outdated."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a regular file is always readable and cannot be polled
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _send_sizes(channel: aiohttp.ClientWebSocketResponse) -> None:
    """Send the terminal's size now and whenever it changes."""
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
