"""Commands in a container that a shim runs."""

import asyncio
import os
import secrets
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.proc import ProgramTimeout
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.oci import ExecResult
from pykubelet.criserver.oci.command import in_container
from pykubelet.criserver.oci.exectree import kill_tree
from pykubelet.criserver.runtimes import Task
from pykubelet.criserver.shim.shim_files import TaskFiles
from pykubelet.criserver.shim.task_client import FifoPaths, ProcessEnd, TaskClient
from pykubelet.criserver.streaming.pipes import PipeReader, PipeWriter

_DRAIN: Final[Seconds] = 2.0
"""Time for output after the command's end: a process that it left may hold its pipes open."""
_KILLED: Final[Seconds] = 10.0
_PAUSE: Final[Seconds] = 0.002
_OPENING: Final = 1000
"""Largest number of checks whether the shim has opened the input."""
_NAMES: Final = ("stdin", "stdout", "stderr")


class ShimExec:
    """One command: its FIFOs, and its process in the shim. ``close`` must be called."""

    def __init__(self, *, client: TaskClient, task: Task, files: TaskFiles) -> None:
        self._client = client
        self._task = task
        self.id = secrets.token_hex(16)
        self._directory = files.execs / self.id
        self._held: tuple[int, ...] = ()
        """Other ends of the FIFOs of the outputs, until the shim has opened them."""
        self._input = -1
        """A reader of the FIFO of the input, until the shim has opened it."""
        self._owner = f"exec/{task.id}"
        self.pid = 0
        """Of the command's first process; 0: it has not started."""
        self.stdin: PipeWriter | None = None
        self.outputs: Mapping[str, PipeReader] = {}

    async def start(self, process: Mapping[str, object], wanted: frozenset[str], *, terminal: bool = False) -> None:
        """Start the command with these streams (``stdin``, ``stdout``, ``stderr``). Errors of the shim."""
        await blocking.call_to_end(self._owner, self._make, wanted)
        # containerd-shim-runc-v2 needs a file for each output.
        paths = {"stdout": os.devnull} if terminal else {"stdout": os.devnull, "stderr": os.devnull}
        paths |= {name: str(self._directory / name) for name in wanted}
        await self._client.exec(self._task.id, self.id, process, FifoPaths(terminal=terminal, **paths))
        try:
            self.pid = await self._client.start(self._task.id, self.id)
        except Transient:
            await self.kill()  # it may have been started nevertheless
            raise
        # From here the shim holds them, and closes them when the output ends.
        self._release()
        await self._input_opened()

    async def _input_opened(self) -> None:
        """Wait until the shim has opened the input, which it does in the background after the start.

        If the last writer closed it before, that would never end: to open a FIFO waits for the other end.
        """
        path = self._directory / "stdin"
        for _ in range(_OPENING):
            if self._input < 0:
                return
            os.close(self._input)
            self._input = -1
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            except OSError:
                self._input = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                await asyncio.sleep(_PAUSE)

    async def wait(self) -> ProcessEnd:
        """Wait for the end of the command."""
        return await self._client.wait(self._task.id, self.id)

    async def resize(self, width: int, height: int) -> None:
        """Set the size of its terminal; no error if it has ended."""
        with suppress(PykubeletError):
            await self._client.resize(self._task.id, self.id, width, height)

    async def close_stdin(self) -> None:
        """End its input; no error if it has ended."""
        if self.stdin is not None:
            self.stdin.close()
            with suppress(PykubeletError):
                await self._client.close_stdin(self._task.id, self.id)

    async def kill(self) -> None:
        """Kill the command with its descendants, and wait a limited time for its end."""
        # Descendants are found on this machine; those in a virtual machine end with its agent's process group.
        await blocking.call(self._owner, _kill_tree, self.pid, self._task)
        with suppress(PykubeletError, TimeoutError):
            async with asyncio.timeout(_KILLED):
                await self._client.kill(self._task.id, signal.SIGKILL, exec_id=self.id)
                await self.wait()

    def close_streams(self) -> None:
        """Close the streams on this side."""
        if self.stdin is not None:
            self.stdin.close()
        for reader in self.outputs.values():
            reader.close()

    async def close(self) -> None:
        """Remove the command from the shim, and its files. It must have ended. Idempotent."""
        self._release()
        if self._input >= 0:
            os.close(self._input)
            self._input = -1
        self.close_streams()
        with suppress(PykubeletError, TimeoutError):
            async with asyncio.timeout(_KILLED):
                await self._client.delete(self._task.id, self.id)
        await blocking.call_to_end(self._owner, shutil.rmtree, self._directory, True)

    def _make(self, wanted: frozenset[str]) -> None:
        self._directory.mkdir(mode=0o700, parents=True)
        for name in _NAMES:
            if name in wanted:
                path = self._directory / name
                os.mkfifo(path, 0o600)
                reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                except OSError:
                    os.close(reader)
                    raise
                if name == "stdin":
                    self.stdin, self._input = PipeWriter(writer), reader
                else:
                    self.outputs = {**self.outputs, name: PipeReader(reader)}
                    self._held = (*self._held, writer)

    def _release(self) -> None:
        held, self._held = self._held, ()
        for fd in held:
            os.close(fd)


def _kill_tree(first: int, task: Task) -> None:
    if first > 0:
        kill_tree(first, lambda pid: in_container(pid, task.id))


async def execute(command: ShimExec, process: Mapping[str, object], timeout: Seconds, output: Bytes) -> ExecResult:
    """Run a command to its end and return up to ``output`` bytes of its output. ProgramTimeout: it was killed."""
    try:
        async with asyncio.timeout(timeout or None):
            return await _run(command, process, output // 2)
    except TimeoutError as error:
        await shielded(command.kill)
        words = f"command {process.get('args')} did not end within {timeout:g} s"
        raise ProgramTimeout(f"{words} and was killed") from error
    except asyncio.CancelledError:
        await shielded(command.kill)
        raise
    finally:
        await shielded(command.close)


async def _run(command: ShimExec, process: Mapping[str, object], most: int) -> ExecResult:
    await command.start(process, frozenset({"stdout", "stderr"}))
    found = {name: bytearray() for name in command.outputs}
    readers = {asyncio.ensure_future(_read(command.outputs[name], into, most)) for name, into in found.items()}
    try:
        ended = await command.wait()
        while readers:
            before = sum(map(len, found.values()))
            _, readers = await asyncio.wait(readers, timeout=_DRAIN)
            if readers and sum(map(len, found.values())) == before:
                break
    finally:
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return ExecResult(ended.code, bytes(found["stdout"]), bytes(found["stderr"]))


async def _read(reader: PipeReader, into: bytearray, most: int) -> None:
    while data := await reader.read():
        into += data[: most - len(into)]


async def end_execs(client: TaskClient, task: Task, files: TaskFiles) -> None:
    """Kill commands that a former server left running in a container: no client reads their output."""
    for exec_id in await blocking.call(f"exec/{task.id}", files.running_execs):
        with suppress(PykubeletError, TimeoutError):
            pid = (await client.state(task.id, exec_id)).pid
            await blocking.call(f"exec/{task.id}", _kill_tree, pid, task)
            with suppress(PykubeletError):  # it may have ended
                await client.kill(task.id, signal.SIGKILL, exec_id=exec_id)
            async with asyncio.timeout(_KILLED):
                await client.wait(task.id, exec_id)
            await client.delete(task.id, exec_id)
        directory: Path = files.execs / exec_id
        await blocking.call_to_end(f"exec/{task.id}", shutil.rmtree, directory, True)
