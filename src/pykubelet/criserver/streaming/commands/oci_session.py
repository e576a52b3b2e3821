"""A command in a container that an OCI runtime's program runs: as a child of this server, with pipes or a terminal."""

import asyncio
import fcntl
import os
import shutil
import signal
import struct
import termios
import tty
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.proc import Child, spawn
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.command import Command
from pykubelet.criserver.oci.runtime import errors_in_log
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.pipes import PipeReader, PipeWriter
from pykubelet.criserver.streaming.streaming_types import Channel, Size, Streams
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd

_PID_FILE: Seconds = 0.2
"""Interval of the search for the pid file of a command that is starting."""
_ENV = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}


class OciSession(ExecSession):
    """One command, with the OCI runtime's process that runs it."""

    def __init__(self, *, streams: Streams, argv: list[str], command: Command, directory: Path) -> None:
        """``argv``: the OCI runtime's command line; ``directory``: of its files, removed at the end."""
        super().__init__(streams)
        self._argv = argv
        self._command = command
        self._directory = directory
        self._terminal = -1
        self._size: Size | None = None
        self._child: Child | None = None

    async def start(self) -> None:
        """Start the OCI runtime with the command."""
        with ExitStack() as child_ends:
            fds = self._open_terminal(child_ends) if self._streams.terminal else self._open_pipes(child_ends)
            self._child = await spawn(self._argv, stdin=fds[0], stdout=fds[1], stderr=fds[2], env=_ENV)
        # Not a part of ``serve``: the task continues after the client has gone, and its cancellation kills the child.
        self._ended = asyncio.ensure_future(self._wait(self._child))

    async def failure(self) -> str:
        """The OCI runtime's error, if it has not started the command."""
        if self._command.noted():
            return ""
        return await blocking.call(self._command.owner, _words, self._directory)

    async def _wait(self, child: Child) -> int:
        self._command.runtime = child.pid
        try:
            return await child.wait()
        finally:
            self._command.runtime = None

    async def _end_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    async def _kill(self) -> None:
        with suppress(Transient):
            await blocking.call(self._command.owner, self._command.kill)

    async def _remove(self) -> None:
        await blocking.call_to_end(self._command.owner, shutil.rmtree, self._directory, True)

    async def _command_ended(self) -> None:
        assert self._ended is not None
        while not self._ended.done():
            if self._command.noted():
                if (command := self._command.open()) is not None:
                    with command:
                        await self._first_of(command.wait())
                return
            await asyncio.wait({self._ended}, timeout=_PID_FILE)

    async def _first_of(self, end: Coroutine[object, object, None]) -> None:
        tasks = {asyncio.ensure_future(end), asyncio.ensure_future(self._until_end())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _open_terminal(self, child_ends: ExitStack) -> tuple[int, int, int]:
        master, slave = os.openpty()
        child_ends.callback(os.close, slave)
        # The command has its own terminal in the container; this one must only carry its bytes.
        tty.setraw(slave)
        self._terminal = master
        self._stdin = PipeWriter(master)
        self._outputs = ((PipeReader(os.dup(master)), Channel.STDOUT),)
        return slave, slave, slave

    def _open_pipes(self, child_ends: ExitStack) -> tuple[int, int, int]:
        stdin, own_end = os.pipe()
        child_ends.callback(os.close, stdin)
        self._stdin = PipeWriter(own_end)
        if not self._streams.stdin:
            self._stdin.close()
        ends = []
        for wanted, channel in ((self._streams.stdout, Channel.STDOUT), (self._streams.stderr, Channel.STDERR)):
            if wanted:
                own_end, child_end = os.pipe()
                self._outputs = (*self._outputs, (PipeReader(own_end), channel))
            else:
                child_end = os.open(os.devnull, os.O_WRONLY)
            child_ends.callback(os.close, child_end)
            ends.append(child_end)
        return stdin, ends[0], ends[1]

    async def _resize(self, size: Size) -> None:
        if self._terminal >= 0 and self._child is not None:
            self._size = size
            _set_size(self._terminal, size)
            # The terminal is not the runtime's controlling one, so the kernel does not send SIGWINCH by itself.
            self._child.signal(signal.SIGWINCH)
            self._begun()

    def _begun(self) -> None:
        """Set the size of the command's own terminal: runc does it by itself, crun does not.

        Also after the first output: a size received before the command had its terminal is set again.
        """
        if self._size is not None and self._command.runtime is not None:
            with suppress(OSError, PykubeletError), terminal_of(self._command.runtime) as terminal:
                _set_size(terminal, self._size)


def _set_size(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))


@contextmanager
def terminal_of(pid: int) -> Iterator[int]:
    """Open the master end of the terminal of an OCI runtime's command. Raises NotFound if it has none yet."""
    for number, target in procfs.descriptors(pid):
        if target.endswith("/ptmx"):
            with PidFd(pid) as process:
                taken = process.take(number)
            try:
                yield taken
            finally:
                os.close(taken)
            return
    raise NotFound(f"process {pid} has no terminal open")


def _words(directory: Path) -> str:
    return errors_in_log(directory / "log") or "the command could not be run"
