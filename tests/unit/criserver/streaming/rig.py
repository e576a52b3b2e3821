"""A streaming server with an executor that runs plain programs on the machine."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.criserver.oci.command import Command
from pykubelet.criserver.streaming import Execution, StreamingServer
from pykubelet.criserver.streaming.commands.oci_session import OciSession
from pykubelet.criserver.streaming.streaming_types import Streams

OUTPUT = Streams(stdin=False, stdout=True, stderr=True, terminal=False)
INPUT = Streams(stdin=True, stdout=True, stderr=False, terminal=False)
TERMINAL = Streams(stdin=True, stdout=True, stderr=False, terminal=True)


class PlainExecutor:
    """Runs the command on the machine; a shell stands for the OCI runtime."""

    def __init__(self, directory: Path, runtime: str) -> None:
        self._directory = directory
        self._runtime = runtime
        self._count = 0

    async def prepare(self, execution: Execution) -> OciSession:
        if execution.container == "ended":
            raise Permanent("container ended is exited, not running")
        self._count += 1
        directory = self._directory / str(self._count)
        directory.mkdir()
        argv = ["/bin/sh", "-c", self._runtime, str(directory / "pid"), *execution.command]
        command = Command(directory / "pid", execution.container * 64)
        return OciSession(streams=execution.streams, argv=argv, command=command, directory=directory)


@asynccontextmanager
async def served(
    directory: Path, runtime: str = 'echo $$ > "$0"; exec "$@"', seconds: float = 30
) -> AsyncIterator[tuple[StreamingServer, aiohttp.ClientSession]]:
    """``runtime``: the shell's words that stand for the OCI runtime; $0 is the file for the process number."""
    server = StreamingServer(PlainExecutor(directory, runtime), SystemClock())
    ready = asyncio.Event()
    task = asyncio.ensure_future(server.run(ready))
    try:
        async with aiohttp.ClientSession() as session, asyncio.timeout(seconds):
            await ready.wait()
            yield server, session
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@contextmanager
def strange_process() -> Iterator["subprocess.Popen[bytes]"]:
    """A program of the machine that has nothing to do with any container."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
