"""Reads the machine's eviction signals: a few files and two statvfs, and every five minutes a call to the runtime."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import Observation, Signal
from pykubelet.kubelet.observe.stats.plan.proc_files import machine_memory
from pykubelet.linux import fsusage, procfs, system

_log = logging.getLogger(__name__)

_ASK_SECONDS: Seconds = 300.0


class MachineObserver:
    """The `Observer` of this machine."""

    def __init__(self, *, root_dir: Path, image_path: Callable[[], Awaitable[str]], clock: Clock) -> None:
        """``image_path`` asks the runtime for a path on the file system of images; empty: unknown."""
        self._root = root_dir
        self._ask = image_path
        self._clock = clock
        self._images = ""
        self._asked_at: Seconds | None = None

    async def read(self) -> dict[Signal, Observation]:
        """Read the signals; without those of images while the runtime has not reported their file system."""
        await self._find_images()
        return await blocking.call("pressure", self._read)

    async def _find_images(self) -> None:
        now = self._clock.monotonic()
        if self._asked_at is not None and self._images and now - self._asked_at < _ASK_SECONDS:
            return
        try:
            self._images = await self._ask()
            self._asked_at = now
        except PykubeletError as error:
            _log.debug("pressure: file system of images unknown", extra={"error": str(error)})

    def _read(self) -> dict[Signal, Observation]:
        memory = machine_memory(procfs.machine("meminfo"), "")
        total = memory.limit or 0
        pids = system.pid_limit()
        found = {
            Signal.MEMORY: Observation(max(0, total - memory.working_set), total),
            Signal.PIDS: Observation(pids - system.process_count(), pids),
        }
        for path, space, inodes in (
            (str(self._root), Signal.NODEFS, Signal.NODEFS_INODES),
            (self._images, Signal.IMAGEFS, Signal.IMAGEFS_INODES),
        ):
            if path:
                found |= _filesystem(path, space, inodes)
        return found


def _filesystem(path: str, space: Signal, inodes: Signal) -> dict[Signal, Observation]:
    try:
        usage = fsusage.filesystem(path)
    except PykubeletError as error:
        _log.debug("pressure: file system not readable", extra={"path": path, "error": str(error)})
        return {}
    found = {space: Observation(usage.available, usage.capacity)}
    if usage.inodes:  # some file systems create inodes on demand and report none
        found[inodes] = Observation(usage.inodes_free, usage.inodes)
    return found
