"""A command in a container, joined to a client."""

import asyncio
import fcntl
import os
import shutil
import signal
import struct
import termios
import tty
from contextlib import ExitStack, suppress
from pathlib import Path

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.proc import Child, spawn
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.runtime import words_of_log
from pykubelet.criserver.streaming.pipes import PipeWriter, reader
from pykubelet.criserver.streaming.types import (
    Channel,
    Client,
    EndOfInput,
    Execution,
    Executor,
    Size,
)
from pykubelet.linux.pidfd import PidFd

_CHUNK = 32768
_DRAIN: Seconds = 2.0
_ENV = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}


async def execute(execution: Execution, executor: Executor, client: Client) -> None:
    """Run it, pass its streams on, tell the client its exit code. The command is killed when the client goes."""
    try:
        argv, pid_file, folder = await executor.prepare(execution)
    except PykubeletError as error:
        await client.finish(1, str(error))
        return
    try:
        code = await _Session(execution, client, pid_file).run(argv)
        if code is None:
            return
        failed = code != 0 and not pid_file.exists()
        words = await asyncio.to_thread(_words, folder) if failed else ""
        await client.finish(code if code >= 0 else 128 - code, words)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, True)


class _Session:
    """One command with its pipes, or its terminal."""

    def __init__(self, execution: Execution, client: Client, pid_file: Path) -> None:
        self._streams = execution.streams
        self._client = client
        self._pid_file = pid_file
        self._terminal = -1

    async def run(self, argv: list[str]) -> int | None:
        """The exit code; None when the client has gone."""
        with ExitStack() as theirs:
            outputs, stdin, child_fds = self._open(theirs)
            child = await spawn(argv, stdin=child_fds[0], stdout=child_fds[1], stderr=child_fds[2], env=_ENV)
        pumps = [asyncio.ensure_future(self._pump(fd, channel)) for fd, channel in outputs]
        listen = asyncio.ensure_future(self._listen(child, stdin))
        ended = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({listen, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return None
            # A process that the command has left behind may hold the pipes open for ever.
            if pumps:
                await asyncio.wait(pumps, timeout=_DRAIN)
            return ended.result()
        finally:
            if not ended.done():
                self._kill()
            for task in (listen, ended, *pumps):
                task.cancel()
            await asyncio.gather(listen, ended, *pumps, return_exceptions=True)
            stdin.close()

    def _open(self, theirs: ExitStack) -> tuple[list[tuple[int, Channel]], PipeWriter, tuple[int, int, int]]:
        if self._streams.terminal:
            master, slave = os.openpty()
            theirs.callback(os.close, slave)
            # The command has a terminal of its own inside; this one must only carry its bytes.
            tty.setraw(slave)
            self._terminal = master
            return [(os.dup(master), Channel.STDOUT)], PipeWriter(master), (slave, slave, slave)
        outputs, ends = [], []
        for wanted, channel in ((self._streams.stdout, Channel.STDOUT), (self._streams.stderr, Channel.STDERR)):
            mine, their = os.pipe() if wanted else (-1, os.open(os.devnull, os.O_WRONLY))
            theirs.callback(os.close, their)
            ends.append(their)
            if wanted:
                outputs.append((mine, channel))
        their, mine = os.pipe()
        theirs.callback(os.close, their)
        stdin = PipeWriter(mine)
        if not self._streams.stdin:
            stdin.close()
        return outputs, stdin, (their, ends[0], ends[1])

    async def _pump(self, fd: int, channel: Channel) -> None:
        stream, transport = await reader(fd)
        try:
            # A pseudo-terminal ends with an error instead of an end of file.
            with suppress(OSError):
                while data := await stream.read(_CHUNK):
                    await self._client.send(channel, data)
        finally:
            transport.close()

    async def _listen(self, child: Child, stdin: PipeWriter) -> None:
        async for what in self._client.receive():
            match what:
                case EndOfInput():
                    if not self._streams.terminal:
                        stdin.close()
                case Size():
                    self._resize(child, what)
                case _ if self._streams.stdin:
                    with suppress(BrokenPipeError):
                        await stdin.write(what)

    def _resize(self, child: Child, size: Size) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))
            # The terminal is not the runtime's controlling one, so the kernel does not tell it by itself.
            child.signal(signal.SIGWINCH)

    def _kill(self) -> None:
        with suppress(OSError, ValueError, NotFound), PidFd(int(self._pid_file.read_text())) as process:
            process.send_signal(signal.SIGKILL)


def _words(folder: Path) -> str:
    return words_of_log(folder / "log") or "the command could not be run"
