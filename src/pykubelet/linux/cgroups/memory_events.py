"""Notifications of the kernel about memory, combined in one descriptor that an event loop can watch.

Three kinds exist: a cgroup of version 1 reports that its usage crosses a threshold (``cgroup.event_control``,
docs.kernel.org, "Memory Resource Controller", section 9), a cgroup of version 2 reports that its ``memory.events``
changed, and a pressure file reports that tasks have stalled for too long (docs.kernel.org, "PSI"). The last two signal
only ``EPOLLPRI``, which asyncio cannot watch; so all are in an epoll set, whose own descriptor becomes readable.
"""

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.units import Bytes, Seconds
from pykubelet.linux.errors import wrap

_URGENT: Final = select.EPOLLPRI | select.EPOLLET
"""Edge-triggered, so that no event has to be read from its descriptor."""
_MICROSECONDS: Final = 1_000_000


class MemoryEvents:
    """A set of notifications. Each method opens its files at once and blocks briefly; ``close`` ends them all."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lasting: dict[Path, int] = {}
        self._thresholds: tuple[int, ...] = ()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with a notification, until `take`; -1 once it is closed."""
        return -1 if self._epoll.closed else self._epoll.fileno()

    def take(self) -> bool:
        """Accept the notifications that have come; return whether there were any, how many does not matter.

        A pressure event is reported to one poll only: one that comes before an event loop watches the descriptor may
        not make it readable, and is seen here.
        """
        return bool(self._epoll.poll(0))

    def watch_pressure(self, file: Path, *, stall: Seconds, window: Seconds) -> None:
        """Notify when some tasks have stalled for ``stall`` within ``window`` (0.5 to 10 s), once per window.

        ``file``: ``/proc/pressure/memory``, or ``memory.pressure`` of a cgroup. Without CAP_SYS_RESOURCE, the kernel
        takes only windows of a multiple of two seconds. Raises NotFound on a kernel without PSI, Permanent without
        permission, Invalid for times that the kernel does not take.
        """
        trigger = f"some {round(stall * _MICROSECONDS)} {round(window * _MICROSECONDS)}"
        fd = _open(file, os.O_RDWR | os.O_NONBLOCK)
        try:
            os.write(fd, trigger.encode() + b"\0")
            self._epoll.register(fd, _URGENT)
        except OSError as error:
            os.close(fd)
            raise wrap(error, f"cannot write {trigger!r} to {file}") from error
        self._keep(file, fd)

    def watch_file(self, file: Path) -> None:
        """Notify when the kernel changes ``file``, the ``memory.events`` of a cgroup. Raises NotFound without it.

        The notifications end with the cgroup; those of another one in its place need a new call.
        """
        fd = _open(file, os.O_RDONLY)
        try:
            self._epoll.register(fd, _URGENT)
        except OSError as error:
            os.close(fd)
            raise wrap(error, f"cannot watch {file}") from error
        self._keep(file, fd)

    def unwatch(self, file: Path) -> None:
        """End the notifications of a file. Idempotent."""
        fd = self._lasting.pop(file, None)
        if fd is not None:
            self._release(fd)

    def watch_growth(self, cgroups: Iterable[tuple[Path, Bytes]]) -> None:
        """Notify when the usage of a cgroup (its directory) has grown by so many bytes from now on, or shrinks again.

        Replaces what an earlier call has set. Raises the errors of ``linux.errors.wrap``; then nothing is set.
        """
        self._drop_thresholds()
        opened: list[int] = []
        try:
            for directory, growth in cgroups:
                opened.append(_threshold(directory, growth))
            for fd in opened:
                self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        self._thresholds = tuple(opened)

    def close(self) -> None:
        """End all notifications. Idempotent."""
        self._drop_thresholds()
        while self._lasting:
            os.close(self._lasting.popitem()[1])
        self._epoll.close()

    def _keep(self, file: Path, fd: int) -> None:
        self.unwatch(file)
        self._lasting[file] = fd

    def _drop_thresholds(self) -> None:
        # The kernel forgets a threshold when its eventfd is closed.
        fds, self._thresholds = self._thresholds, ()
        for fd in fds:
            self._release(fd)

    def _release(self, fd: int) -> None:
        with suppress(OSError):
            self._epoll.unregister(fd)
        os.close(fd)


def _threshold(directory: Path, growth: Bytes) -> int:
    """Return an eventfd that the kernel signals when the cgroup's usage crosses this distance from the present one."""
    event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    try:
        counter = _open(directory / "memory.usage_in_bytes", os.O_RDONLY)
        try:
            usage = int(os.read(counter, 32))
            control = _open(directory / "cgroup.event_control", os.O_WRONLY)
            try:
                os.write(control, f"{event} {counter} {usage + growth}".encode())
            finally:
                os.close(control)
        finally:
            os.close(counter)
    except OSError as error:
        os.close(event)
        raise wrap(error, f"cannot set a memory threshold in {directory}") from error
    except BaseException:
        os.close(event)
        raise
    return event


def _open(file: Path, flags: int) -> int:
    try:
        return os.open(file, flags | os.O_CLOEXEC)
    except OSError as error:
        raise wrap(error, f"cannot open {file}") from error
