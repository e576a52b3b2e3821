"""The number of OOM kills in a cgroup."""

import asyncio
import logging
import os
import select
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.linux.cgroups.convert import flat_keyed
from pykubelet.linux.cgroups.detect import Layout, Mode

_log = logging.getLogger(__name__)
_LONGEST: Final = 4096
_PAUSE: Final[Seconds] = 0.05
"""Between two looks: processes at their memory limit change the file up to a hundred times a second."""


class OomCounter:
    """Reads the OOM kills from `memory.oom_control` (version 1, Linux 4.13) or `memory.events` (version 2)."""

    def __init__(self, layout: Layout) -> None:
        version2 = layout.mode is Mode.V2
        self._root = layout.unified if version2 else layout.controllers.get("memory")
        self._file = "memory.events" if version2 else "memory.oom_control"

    def file(self, path: str) -> Path | None:
        """The file that has the number for the cgroup at that path below the hierarchy's root; None without one."""
        return None if self._root is None else self._root / path.lstrip("/") / self._file

    def kills(self, path: str) -> int:
        """OOM kills in the cgroup at that path below the hierarchy's root; 0 if it does not exist. Blocks briefly."""
        file = self.file(path)
        if file is None:
            return 0
        try:
            return _kills(file.read_bytes())
        except OSError:
            return 0


class OomWatch:
    """The OOM kills of cgroups of version 2 that may be gone before anything can read their numbers.

    The kernel tells each change of `memory.events` by ``EPOLLPRI``, which asyncio cannot watch; so all files are in an
    epoll set, whose own descriptor becomes readable. A file is watched until it has the first kill. For one event loop.
    """

    def __init__(self, counter: OomCounter) -> None:
        self._counter = counter
        self._epoll = select.epoll()
        self._files: dict[int, str] = {}
        """The cgroups by the descriptors of their files."""
        self._kills: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_short = False
        """Whether the last file could not be watched, which a warning told."""

    def follow(self, path: str) -> None:
        """Begin to watch a cgroup, until ``forget``. Without the file nothing is watched. Blocks briefly."""
        file = self._counter.file(path)
        if file is None or path in self._kills:
            return
        try:
            fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._files[fd] = path
        self._kills[path] = 0
        self._register(fd)
        if self._loop is None:  # otherwise it listens, or pauses
            self._listen()
        self._read(fd)

    def _register(self, fd: int) -> None:
        try:
            # Edge-triggered: what is read next is newer than the change that was told.
            self._epoll.register(fd, select.EPOLLPRI | select.EPOLLET)
        except OSError as error:  # root has no watches left, which it shares with containers
            if not self._is_short:
                _log.warning("OOM kills not watched: containers may lack OOMKilled", extra={"error": str(error)})
            self._is_short = True
        else:
            self._is_short = False

    def kills(self, path: str) -> int:
        """OOM kills that were seen in a watched cgroup; 0 for others."""
        return self._kills.get(path, 0)

    def forget(self, path: str) -> None:
        """Do not watch a cgroup any more. Idempotent."""
        self._kills.pop(path, None)
        for fd in [each for each, of in self._files.items() if of == path]:
            self._close(fd)

    def close(self) -> None:
        """Watch nothing any more. Idempotent."""
        for fd in tuple(self._files):
            self._close(fd)
        if self._loop is not None and not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _listen(self) -> None:
        if not self._epoll.closed:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._epoll.fileno(), self._look)

    def _look(self) -> None:
        """Read the files that have changed; then pause."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._epoll.fileno())
        for fd, _ in self._epoll.poll(0):
            self._read(fd)
        loop.call_later(_PAUSE, self._listen)

    def _read(self, fd: int) -> None:
        try:
            found = _kills(os.pread(fd, _LONGEST, 0))
        except OSError:  # the cgroup is gone
            self._close(fd)
            return
        if found:
            self._kills[self._files[fd]] = found
            self._close(fd)

    def _close(self, fd: int) -> None:
        del self._files[fd]
        with suppress(OSError):
            self._epoll.unregister(fd)
        os.close(fd)


def _kills(text: bytes) -> int:
    return flat_keyed(text.decode(errors="replace")).get("oom_kill", 0)
