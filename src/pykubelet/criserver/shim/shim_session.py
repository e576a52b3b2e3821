"""A command in a container that a shim runs, with a client's streams."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.shim.shim_exec import ShimExec
from pykubelet.criserver.shim.task_client import TaskClient
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import Channel, Size, Streams

_LOST = 255


class ShimSession(ExecSession):
    """One command, connected by FIFOs."""

    def __init__(self, *, command: ShimExec, process: Mapping[str, object], streams: Streams) -> None:
        super().__init__(streams)
        self._command = command
        self._process = process
        self._problem = ""

    async def start(self) -> None:
        """Start the command. Permanent, with the shim's message: it failed."""
        wanted = self._streams
        named = (("stdin", wanted.stdin), ("stdout", wanted.stdout), ("stderr", wanted.stderr and not wanted.terminal))
        names = frozenset(name for name, is_wanted in named if is_wanted)
        await self._command.start(self._process, names, terminal=wanted.terminal)
        self._stdin = self._command.stdin
        channels = (("stdout", Channel.STDOUT), ("stderr", Channel.STDERR))
        self._outputs = tuple((self._command.outputs[name], channel) for name, channel in channels if name in names)
        self._ended = asyncio.ensure_future(self._wait())

    async def failure(self) -> str:
        """Return the reason why the exit code is unknown; empty if it is known."""
        return self._problem

    async def _wait(self) -> int:
        try:
            return (await self._command.wait()).code
        except PykubeletError as error:
            self._problem = str(error)
            return _LOST

    async def _end_input(self) -> None:
        await self._command.close_stdin()

    async def _kill(self) -> None:
        await self._command.kill()

    async def _remove(self) -> None:
        await self._command.close()

    async def _command_ended(self) -> None:
        await self._until_end()

    async def _resize(self, size: Size) -> None:
        await self._command.resize(size.width, size.height)


class ShimControl:
    """Control of the streams of a task, for an attached client."""

    def __init__(self, client: Callable[[], Awaitable[TaskClient]], task: str) -> None:
        self._client = client
        self._task = task

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the task's terminal; no error if it has ended."""
        with suppress(PykubeletError):
            await (await self._client()).resize(self._task, "", width, height)

    async def end_input(self) -> None:
        """Let the task's stdin end; no error if the task has ended."""
        with suppress(PykubeletError):
            await (await self._client()).close_stdin(self._task)
