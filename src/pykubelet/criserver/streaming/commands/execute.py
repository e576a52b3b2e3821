"""Exec: a command in a container, connected to a client."""

from typing import Protocol

from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.streaming.commands.detached import DetachedExecs
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import Client, Execution


class Executor(Protocol):
    """Runs commands in containers for the streaming server."""

    async def prepare(self, execution: Execution) -> ExecSession:
        """Prepare a command. NotFound, Permanent: the container has exited meanwhile."""
        ...


async def execute(execution: Execution, executor: Executor, client: Client, detached: DetachedExecs) -> None:
    """Run a command, copy its streams, and send the client its exit code.

    If the client disconnects, the command continues, as with the runtimes of the Go kubelet: its stdin is closed, and
    it blocks once it has written more than a pipe holds. ``detached`` then watches it until it ends.
    """
    try:
        session = await executor.prepare(execution)
    except PykubeletError as error:
        await client.finish(1, str(error))
        return
    try:
        await session.start()
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
        words = await session.failure() if code != 0 else ""
        await client.finish(code if code >= 0 else 128 - code, words)
    finally:
        await session.end()
