"""The only place that starts other programs.

Every child gets its own session, so that it and all it started can be killed as one group; no shell, no
inherited descriptors, bounded output, a deadline. With the pidfd watcher a spawn costs the loop under a
millisecond and no thread.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.base.units import MIB, Seconds

_log = logging.getLogger(__name__)

DEFAULT_MAX_OUTPUT = 16 * MIB
_DRAIN_GRACE: Seconds = 1.0
_REAP_GRACE: Seconds = 5.0
_MESSAGE_TAIL = 2048


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended. A negative `returncode` is the signal that killed it.

    `truncated` says that output beyond `max_output` was read and dropped.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class ExitError(Permanent):
    """A checked program ended with a non-zero code; `completed` has its output."""

    def __init__(self, message: str, completed: Completed) -> None:
        super().__init__(message)
        self.completed = completed


class ProgramTimeout(Transient):
    """The program did not end in time and was killed with everything in its session."""


def install_child_watcher() -> None:
    """Let asyncio learn of child exits through pidfds instead of a thread per child.

    Python 3.12 and later do so by themselves; only 3.11 has to be told. Call it once, before the loop runs.
    """
    if sys.version_info < (3, 12):
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())


async def run(
    argv: Sequence[str],
    *,
    timeout: Seconds,
    input: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    check: bool = True,
    max_output: int = DEFAULT_MAX_OUTPUT,
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run a program to its end and return its output.

    `env` None inherits ours. `pass_fds` are the only descriptors beside stdio that the program gets. Output beyond
    `max_output` bytes per stream is read and dropped. Raises NotFound when the program does not exist, Permanent when
    it cannot be executed, ProgramTimeout after `timeout` seconds, and, with `check`, ExitError for a non-zero exit. On
    timeout and on cancellation the whole process group gets SIGKILL and the child is reaped before the call ends.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Collector(max_output),
            *argv,
            stdin=asyncio.subprocess.PIPE if input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=cwd,
            close_fds=True,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise NotFound(f"cannot run {argv[0]}: {error.filename or argv[0]} does not exist") from error
    except OSError as error:
        raise Permanent(f"cannot run {argv[0]}: {error.strerror or error}") from error
    try:
        await _feed_and_wait(transport, protocol, input, timeout)
    except TimeoutError as error:
        raise ProgramTimeout(f"{argv[0]} did not end within {timeout:g} s and was killed") from error
    finally:
        await _end(transport, protocol)
    returncode = transport.get_returncode()
    completed = Completed(
        returncode=-signal.SIGKILL if returncode is None else returncode,
        stdout=bytes(protocol.output[1]),
        stderr=bytes(protocol.output[2]),
        truncated=protocol.truncated,
    )
    if check and completed.returncode != 0:
        raise ExitError(_failure(argv[0], completed), completed)
    return completed


class _Collector(asyncio.SubprocessProtocol):
    """Gathers both streams up to the limit; tells when the child has exited and when its pipes are closed."""

    def __init__(self, limit: int) -> None:
        self.output: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.truncated = False
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self._limit = limit
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        buffer = self.output[fd]
        room = self._limit - len(buffer)
        if len(data) > room:
            self.truncated = True
            data = data[:room]
        buffer += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()


async def _feed_and_wait(
    transport: asyncio.SubprocessTransport, protocol: _Collector, input: bytes, timeout: Seconds
) -> None:
    async with asyncio.timeout(timeout):
        if input:
            stdin = transport.get_pipe_transport(0)
            assert isinstance(stdin, asyncio.WriteTransport)
            stdin.write(input)  # buffered; a child that closes its stdin early just loses the rest
            stdin.close()
        await protocol.exited.wait()
    # A grandchild may hold the pipes open for ever; what the child itself wrote is there at once.
    try:
        async with asyncio.timeout(_DRAIN_GRACE):
            await protocol.drained.wait()
    except TimeoutError:
        _log.debug("output pipes stayed open after the program ended", extra={"pid": transport.get_pid()})


async def _end(transport: asyncio.SubprocessTransport, protocol: _Collector) -> None:
    """Kill what still runs, reap it and close the pipes; a second cancellation does not cut this short."""
    if not protocol.exited.is_set():
        # The leader is not reaped yet, so its number still names this group and no other.
        try:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        await _reaped(transport, protocol)
    transport.close()


async def _reaped(transport: asyncio.SubprocessTransport, protocol: _Collector) -> None:
    """Wait for the exit of a killed child. Cancellation is held back until then and passed on after."""
    cancelled: asyncio.CancelledError | None = None
    give_up = asyncio.get_running_loop().call_later(_REAP_GRACE, protocol.exited.set)
    while not protocol.exited.is_set():
        try:
            await protocol.exited.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    give_up.cancel()
    if transport.get_returncode() is None:
        _log.error("a killed program does not go away, it hangs in the kernel", extra={"pid": transport.get_pid()})
    if cancelled is not None:
        transport.close()
        raise cancelled


def _failure(program: str, completed: Completed) -> str:
    how = (
        f"was killed by {_signal_name(-completed.returncode)}"
        if completed.returncode < 0
        else f"ended with exit code {completed.returncode}"
    )
    said = (completed.stderr.strip() or completed.stdout.strip())[-_MESSAGE_TAIL:].decode(errors="replace")
    return f"{program} {how}: {said}" if said else f"{program} {how}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
