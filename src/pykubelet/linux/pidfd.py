"""Handles on processes that are not children of this one (pidfds): no pid reuse, no polling for their end."""

import asyncio
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from pykubelet.base.concurrency.answer import Answer
from pykubelet.base.errors import NotFound
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap

_PIDFD_GETFD = 438
"""System call number; it is the same on every architecture."""


class PidFd:
    """A handle on one process, child or not. Close it, or use it as a context manager."""

    def __init__(self, pid: int) -> None:
        """Open the process. Raises NotFound if it does not exist."""
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
        """Close the handle. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def exited(self) -> bool:
        """Whether the process has ended; it may still be a zombie that its parent has not reaped."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def send_signal(self, number: int) -> None:
        """Signal exactly this process. Raises NotFound if it has ended."""
        try:
            signal.pidfd_send_signal(self._fd, number)
        except ProcessLookupError as error:
            raise NotFound(f"process {self.pid} has ended") from error
        except OSError as error:
            raise wrap(error, f"cannot signal process {self.pid}") from error

    def take(self, number: int) -> int:
        """Duplicate a descriptor of the process into this one (pidfd_getfd, Linux 5.6); the caller closes it.

        Raises the errors of ``linux.errors.wrap``: NotFound if the process has ended.
        """
        try:
            return libc.syscall(_PIDFD_GETFD, self._fd, number, 0)
        except OSError as error:
            raise wrap(error, f"cannot take descriptor {number} of process {self.pid}") from error

    @contextmanager
    def on_exit(self, function: Callable[[], object]) -> Iterator[None]:
        """Call the function, in the event loop, when the process ends (or has ended) while the context is open."""
        loop = asyncio.get_running_loop()
        # A descriptor can have only one reader, so each context watches a copy.
        copy = os.dup(self._fd)

        def exited() -> None:
            loop.remove_reader(copy)
            function()

        loop.add_reader(copy, exited)
        try:
            yield
        finally:
            loop.remove_reader(copy)
            os.close(copy)

    async def wait(self) -> None:
        """Return when the process has ended. Any number of tasks may wait; only its parent can read the exit code."""
        ended: Answer[None] = Answer()
        with self.on_exit(lambda: ended.give(None)):
            await ended
