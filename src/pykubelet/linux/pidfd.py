"""Processes that are not our children, held by descriptor: no pid reuse, no polling for their end."""

import asyncio
import os
import select
import signal
from types import TracebackType

from pykubelet.base.errors import NotFound
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap

_PIDFD_GETFD = 438
"""The same on every architecture."""


class PidFd:
    """A handle on one process, whoever started it. Close it, or use it as a context manager."""

    def __init__(self, pid: int) -> None:
        """Raises NotFound when there is no such process."""
        self.pid = pid
        try:
            self._fd = os.pidfd_open(pid)
        except OSError as error:
            raise wrap(error, f"cannot open process {pid}") from error

    def __enter__(self) -> "PidFd":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the process; twice is fine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def exited(self) -> bool:
        """Whether the process has ended (it may be a zombie that waits for its parent)."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def send_signal(self, number: int) -> None:
        """Signal exactly this process. Raises NotFound when it has ended."""
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError as error:
            raise NotFound(f"process {self.pid} has ended") from error
        except OSError as error:
            raise wrap(error, f"cannot signal process {self.pid}") from error

    def take(self, number: int) -> int:
        """A descriptor of the process as one of ours, the caller's to close (pidfd_getfd, Linux 5.6).

        Errors of the kernel come as base errors: NotFound when the process has ended.
        """
        try:
            return libc.syscall(_PIDFD_GETFD, self._fd, number, 0)
        except OSError as error:
            raise wrap(error, f"cannot take descriptor {number} of process {self.pid}") from error

    async def wait(self) -> None:
        """Return when the process has ended. Any number of tasks may wait; the exit code is its parent's to read."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        # A descriptor can have one reader only, so each waiter watches a copy.
        copy = os.dup(self._fd)
        loop.add_reader(copy, _finish, ended)
        try:
            await ended
        finally:
            loop.remove_reader(copy)
            os.close(copy)


def _finish(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)
