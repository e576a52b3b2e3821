"""Exec: a command in a container, connected to a client."""

import asyncio
import fcntl
import logging
import os
import shutil
import signal
import struct
import termios
import tty
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.proc import Child, spawn
from pykubelet.base.units import Seconds
from pykubelet.criserver.oci.command import Command
from pykubelet.criserver.oci.runtime import errors_in_log
from pykubelet.criserver.streaming.detached import DetachedExecs
from pykubelet.criserver.streaming.pipes import PipeReader, PipeWriter
from pykubelet.criserver.streaming.streaming_types import (
    Channel,
    Client,
    EndOfInput,
    Execution,
    Executor,
    Size,
    Streams,
)
from pykubelet.linux import procfs
from pykubelet.linux.pidfd import PidFd

_log = logging.getLogger(__name__)
_DRAIN: Seconds = 2.0
_RUNTIME_END: Seconds = 10.0
"""Time that the OCI runtime has to end after its command."""
_PID_FILE: Seconds = 0.2
"""Interval of the search for the pid file of a command that is starting."""
_ENV = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}


async def execute(execution: Execution, executor: Executor, client: Client, detached: DetachedExecs) -> None:
    """Run a command, copy its streams, and send the client its exit code.

    If the client disconnects, the command continues, as with the runtimes of the Go kubelet: its stdin is closed, and
    it blocks once it has written more than a pipe holds. ``detached`` then watches it until it ends.
    """
    try:
        argv, command, directory = await executor.prepare(execution)
    except PykubeletError as error:
        await client.finish(1, str(error))
        return
    session = _Session(streams=execution.streams, command=command, directory=directory)
    try:
        await session.start(argv)
        code = await session.serve(client)
    except PykubeletError as error:
        await session.end()
        await client.finish(1, str(error))
        return
    except BaseException:
        await shielded(session.kill)
        raise
    if code is None:
        detached.take(session.outlive)
        return
    try:
        failed = code != 0 and not command.noted()
        words = await blocking.call(command.owner, _words, directory) if failed else ""
        await client.finish(code if code >= 0 else 128 - code, words)
    finally:
        await session.end()


class _Session:
    """One command with its pipes or its terminal."""

    def __init__(self, *, streams: Streams, command: Command, directory: Path) -> None:
        self._streams = streams
        self._command = command
        self._directory = directory
        self._outputs: list[tuple[PipeReader, Channel]] = []
        self._stdin: PipeWriter | None = None
        self._terminal = -1
        self._size: Size | None = None
        self._child: Child | None = None
        self._ended: asyncio.Future[int] | None = None

    async def start(self, argv: list[str]) -> None:
        """Start the OCI runtime with the command."""
        with ExitStack() as child_ends:
            fds = self._open_terminal(child_ends) if self._streams.terminal else self._open_pipes(child_ends)
            self._child = await spawn(argv, stdin=fds[0], stdout=fds[1], stderr=fds[2], env=_ENV)
        # Not a part of ``serve``: the task continues after the client has gone, and its cancellation kills the child.
        self._ended = asyncio.ensure_future(self._wait(self._child))

    async def _wait(self, child: Child) -> int:
        self._command.runtime = child.pid
        try:
            return await child.wait()
        finally:
            self._command.runtime = None

    async def serve(self, client: Client) -> int | None:
        """Copy the streams. Returns the exit code, or None if the client has gone before the end."""
        assert self._ended is not None
        # The first output triggers a resize: a size received before the command had its terminal is set again.
        pumps = {
            asyncio.ensure_future(_pump(pipe, channel, client, self._resize_inner)) for pipe, channel in self._outputs
        }
        listen = asyncio.ensure_future(self._listen(client))
        gone = asyncio.ensure_future(client.gone())
        end = asyncio.ensure_future(self._until_end())
        waiting = {end, listen, gone, *pumps}
        try:
            while not self._ended.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if listen in done or gone in done or _client_gone(done & pumps):
                    return None
            await self._drain(pumps)
            return self._ended.result()
        finally:
            for task in (end, listen, gone, *pumps):
                task.cancel()
            await asyncio.gather(end, listen, gone, *pumps, return_exceptions=True)
            if self._stdin and not self._streams.terminal:
                self._stdin.close()

    async def end(self) -> None:
        """Wait for the end of the command and clean up."""
        try:
            if self._ended is not None:
                await self._ended
        finally:
            self._close()
            await blocking.call_to_end(self._command.owner, shutil.rmtree, self._directory, True)

    async def outlive(self, unwanted: asyncio.Event) -> None:
        """Wait for the end of the command without a client; kill it when ``unwanted`` is set."""
        goes_on = asyncio.ensure_future(self._until_runtime_ended())
        stop = asyncio.ensure_future(unwanted.wait())
        try:
            await asyncio.wait({goes_on, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (goes_on, stop):
                task.cancel()
            await asyncio.gather(goes_on, stop, return_exceptions=True)
        if goes_on.cancelled() or not goes_on.result():
            await self.kill()
        else:
            await self.end()

    async def _until_runtime_ended(self) -> bool:
        """Wait for the end of the OCI runtime. Returns False if it keeps running after its command has ended."""
        await self._command_ended()
        # The OCI runtime would wait for ever for a reader of the rest of the output.
        self._close()
        try:
            async with asyncio.timeout(_RUNTIME_END):
                await self._until_end()
        except TimeoutError:
            _log.warning("OCI runtime still runs after its command has ended: killing it")
            return False
        return True

    async def kill(self) -> None:
        """Kill the command and clean up."""
        with suppress(Transient):
            await blocking.call(self._command.owner, self._command.kill)
        if self._ended is not None:
            self._ended.cancel()
        with suppress(asyncio.CancelledError):
            await self.end()

    def _close(self) -> None:
        if self._stdin:
            self._stdin.close()
        for pipe, _ in self._outputs:
            pipe.close()

    async def _command_ended(self) -> None:
        """Return when the command itself or its OCI runtime has ended."""
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
        self._outputs.append((PipeReader(os.dup(master)), Channel.STDOUT))
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
                self._outputs.append((PipeReader(own_end), channel))
            else:
                child_end = os.open(os.devnull, os.O_WRONLY)
            child_ends.callback(os.close, child_end)
            ends.append(child_end)
        return stdin, ends[0], ends[1]

    async def _until_end(self) -> None:
        assert self._ended is not None
        await asyncio.shield(self._ended)

    async def _drain(self, pumps: "set[asyncio.Task[None]]") -> None:
        """Copy the rest of the output, but not for ever: a process left by the command may hold the pipes open."""
        while pumps:
            done, pumps = await asyncio.wait(pumps, timeout=_DRAIN)
            if not done and any(pipe.waiting for pipe, _ in self._outputs):
                return

    async def _listen(self, client: Client) -> None:
        assert self._stdin is not None
        async for what in client.receive():
            match what:
                case EndOfInput():
                    if not self._streams.terminal:
                        self._stdin.close()
                case Size():
                    self._resize(what)
                case _ if self._streams.stdin:
                    with suppress(OSError):
                        await self._stdin.write(what)

    def _resize(self, size: Size) -> None:
        if self._terminal >= 0 and self._child is not None:
            self._size = size
            _set_size(self._terminal, size)
            # The terminal is not the runtime's controlling one, so the kernel does not send SIGWINCH by itself.
            self._child.signal(signal.SIGWINCH)
            self._resize_inner()

    def _resize_inner(self) -> None:
        """Set the size of the command's own terminal: runc does it by itself, crun does not."""
        if self._size is not None and self._command.runtime is not None:
            with suppress(OSError, PykubeletError), terminal_of(self._command.runtime) as terminal:
                _set_size(terminal, self._size)


async def _pump(pipe: PipeReader, channel: Channel, client: Client, first: Callable[[], None]) -> None:
    """Copy a pipe to a channel. ``first`` is called after the first read, when the command certainly runs."""
    if data := await pipe.read():
        first()
    while data:
        await client.send(channel, data)
        data = await pipe.read()


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


def _client_gone(pumps: "set[asyncio.Task[None]]") -> bool:
    return any(pump.exception() is not None for pump in pumps)


def _words(directory: Path) -> str:
    return errors_in_log(directory / "log") or "the command could not be run"
