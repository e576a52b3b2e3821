"""Subprocesses: the only module that starts other programs.

Every child gets its own session, so that it and everything it started can be killed as one group; it gets no shell, no
inherited descriptors, bounded output and a deadline. Its pidfd signals its end to the event loop: a spawn costs the
loop less than a millisecond and no thread.
"""

import asyncio
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from pykubelet.base.daemon.open_files import give_first_limit
from pykubelet.base.errors import PASSING, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.units import MIB, Seconds

_log = logging.getLogger(__name__)

DEFAULT_MAX_OUTPUT = 16 * MIB
_DRAIN_GRACE: Seconds = 1.0
_REAP_GRACE: Seconds = 5.0
_MESSAGE_TAIL = 2048
_CHUNK = 65536
_PASSING = PASSING | {errno.ETXTBSY}
"""Errors of a start that a retry may not meet; a program that is being replaced is one of them."""


class CompletedProgram(Struct, frozen=True):
    """The result of a program that has ended. A negative `returncode` is the signal that killed it.

    `truncated` means that output beyond `max_output` was read and dropped.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class ExitError(Permanent):
    """A program that was run with `check` ended with a non-zero code; `completed` has its output."""

    def __init__(self, message: str, completed: CompletedProgram) -> None:
        super().__init__(message)
        self.completed = completed


class ProgramTimeout(Transient):
    """The program did not end in time and was killed with everything in its session."""


async def run(
    argv: Sequence[str],
    *,
    timeout: Seconds,
    input: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    check: bool = True,
    max_output: int = DEFAULT_MAX_OUTPUT,
    stop_at_limit: bool = False,
    kill_leftovers: bool = False,
    pass_fds: Sequence[int] = (),
    on_start: Callable[[int], None] | None = None,
) -> CompletedProgram:
    """Run a program to its end and return its output.

    `env` None passes on the environment of this process. `pass_fds` are the only descriptors beside stdio that the
    program gets. Output beyond `max_output` bytes per stream is read and dropped; with `stop_at_limit`, a program that
    writes more is killed. With `kill_leftovers`, processes that the program leaves behind in its group get SIGKILL when
    it ends; those that have left the group are out of reach. `on_start` is called with the pid of the child, which is
    not reused before the child ends.

    Raises NotFound if the program does not exist, Permanent if it cannot be executed, Transient if it cannot be started
    for the moment, ProgramTimeout after `timeout` seconds and, with `check`, ExitError for a non-zero exit code. On
    timeout and on cancellation the whole process group gets SIGKILL and the child is reaped before the call ends.
    """
    process = _Process(
        argv,
        _Streams(subprocess.PIPE if input else subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE, tuple(pass_fds)),
        env=env,
        cwd=cwd,
        kill_leftovers=kill_leftovers,
    )
    if on_start is not None:
        on_start(process.pid)
    full = process.kill_group if stop_at_limit else None
    output = _Output(process.stdout, max_output, full=full), _Output(process.stderr, max_output, full=full)
    feed = _Feed(process.stdin, input)
    try:
        async with asyncio.timeout(timeout):
            await process.exited.wait()
        await _drain(output)
    except TimeoutError as error:
        raise ProgramTimeout(f"{argv[0]} did not end within {timeout:g} s and was killed") from error
    finally:
        try:
            await process.end()
        finally:
            for pipe in (feed, *output):
                pipe.close()
    completed = CompletedProgram(
        returncode=process.returncode,
        stdout=bytes(output[0].data),
        stderr=bytes(output[1].data),
        truncated=output[0].truncated or output[1].truncated,
    )
    if check and completed.returncode != 0:
        raise ExitError(_failure(argv[0], completed), completed)
    return completed


class Child:
    """A running program whose streams the caller handles. The caller must await ``wait``."""

    def __init__(self, process: "_Process") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The pid, which may be reused as soon as the program has ended: the event loop reaps it at once."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for the exit code, negative for a signal. On cancellation the process group is killed and reaped."""
        try:
            await self._process.exited.wait()
        finally:
            await self._process.end()
        return self._process.returncode

    def signal(self, number: int) -> None:
        """Signal the program itself; do nothing if it has ended."""
        self._process.signal(number)


async def spawn(argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, env: Mapping[str, str]) -> Child:
    """Start a program on the given descriptors, which the caller closes. Raises the errors of ``run``."""
    return Child(_Process(argv, _Streams(stdin, stdout, stderr), env=env, cwd="/"))


class DetachedDaemon:
    """A daemon that this process has started and that outlives it."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen

    @property
    def pid(self) -> int:
        """The pid, which is not reused before ``forget``."""
        return self._popen.pid

    def forget(self) -> None:
        """Reap the daemon if it has ended; otherwise it keeps running and its next parent reaps it."""
        if self._popen.poll() is None:
            # Popen warns about children that are still running; this one is meant to.
            self._popen.returncode = 0


def detach(argv: Sequence[str], *, log: Path, env: Mapping[str, str]) -> DetachedDaemon:
    """Start a daemon in its own session: no terminal, no input, all output appended to ``log``. Blocks.

    Its limit of open files is the one with which this process began. Raises the errors of ``run``.
    """
    with log.open("ab") as output:
        try:
            popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
            )
        except OSError as error:
            raise _not_started(argv[0], error) from error
    give_first_limit(popen.pid)
    return DetachedDaemon(popen)


def _not_started(program: str, error: OSError) -> PykubeletError:
    """Transient if that says nothing about the program: no process, descriptor or memory was left for it."""
    kind = Transient if error.errno in _PASSING else Permanent
    return kind(f"cannot run {program}: {error.strerror or error}")


class _Streams(Struct, frozen=True):
    """The descriptors of a child, in the terms of subprocess.Popen."""

    stdin: int
    stdout: int
    stderr: int
    others: tuple[int, ...] = ()


class _Process:
    """A started child. Its pidfd signals its end to the event loop, so that it is reaped at once.

    The start awaits nothing. asyncio's own subprocesses do: if they are cancelled at that point, they wait for ever on
    Python 3.11, for pipes that were never connected.
    """

    def __init__(
        self,
        argv: Sequence[str],
        streams: _Streams,
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        kill_leftovers: bool = False,
    ) -> None:
        try:
            self._popen = subprocess.Popen(
                argv,
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                pass_fds=streams.others,
                env=env,
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise NotFound(f"cannot run {argv[0]}: {error.filename or argv[0]} does not exist") from error
        except OSError as error:
            raise _not_started(argv[0], error) from error
        except ValueError as error:
            raise Invalid(f"cannot run {argv[0]!r}: {error}") from error
        self.pid = self._popen.pid
        self.stdin, self.stdout, self.stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr
        self._kill_leftovers = kill_leftovers
        self.exited = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError as error:
            with self._popen:
                self._popen.kill()
            raise Transient(f"cannot watch {argv[0]}, so it was killed: {error.strerror}") from error
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def returncode(self) -> int:
        """The exit code, negative for a signal; that of SIGKILL for a killed child that hangs in the kernel."""
        code = self._popen.returncode
        return -signal.SIGKILL if code is None else code

    def signal(self, number: int) -> None:
        """Signal the child; do nothing if it has ended."""
        if not self.exited.is_set():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill_group(self) -> None:
        """Kill the child and all in its session; do nothing if it has ended."""
        if not self.exited.is_set():
            # The leader is not reaped yet, so its pid still names this group and no other.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill the whole group if the child still runs, and reap it.

        A cancellation is delayed until then.
        """
        if self.exited.is_set():
            return
        self.kill_group()
        give_up = self._loop.call_later(_REAP_GRACE, self._abandon)
        cancelled: asyncio.CancelledError | None = None
        while not self.exited.is_set():
            try:
                await self.exited.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        give_up.cancel()
        if cancelled is not None:
            raise cancelled

    def _reap(self) -> None:
        if self._kill_leftovers:
            self.kill_group()
        if self._popen.poll() is not None:
            self._stop_watching()

    def _abandon(self) -> None:
        _log.error("killed program does not end: it hangs in the kernel", extra={"pid": self.pid})
        self._stop_watching()

    def _stop_watching(self) -> None:
        # Both callers may be due in one round of the event loop; the descriptor's number is another file's by then.
        if self.exited.is_set():
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.exited.set()


class _Output:
    """Reads one output stream of a child as it comes, and keeps its first bytes up to a limit.

    ``full`` is called when the child writes more, and nothing is read after that.
    """

    def __init__(self, pipe: IO[bytes] | None, limit: int, *, full: Callable[[], None] | None) -> None:
        assert pipe is not None
        self._full = full
        self.data = bytearray()
        self.truncated = False
        self.drained = asyncio.Event()
        self._pipe = pipe
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        room = self._limit - len(self.data)
        self.truncated |= len(data) > room
        self.data += data[:room]
        if self.truncated and self._full is not None:
            self._full()
            self.close()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.drained.set()


class _Feed:
    """Writes the input of a child as fast as it reads; input that it does not read is dropped."""

    def __init__(self, pipe: IO[bytes] | None, data: bytes) -> None:
        self._pipe = pipe
        self._left = memoryview(data)
        self._loop = asyncio.get_running_loop()
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_writer(pipe.fileno(), self._write)

    def _write(self) -> None:
        assert self._pipe is not None
        try:
            self._left = self._left[os.write(self._pipe.fileno(), self._left) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")
        if not self._left:
            self.close()

    def close(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()


async def _drain(output: Iterable[_Output]) -> None:
    """Read the rest of the output, for a short time only: a grandchild may hold the pipes open for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_GRACE):
            for stream in output:
                await stream.drained.wait()


def _failure(program: str, completed: CompletedProgram) -> str:
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
