"""Reads the machine's eviction signals: a few files and three statvfs, and every five minutes a call to the runtime."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import Disks, Signal, SignalObservation
from pykubelet.kubelet.observe.stats.plan.proc_files import machine_memory
from pykubelet.linux import procfs, system
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver
from pykubelet.linux.filesystems import fsusage

_log = logging.getLogger(__name__)

_ASK_SECONDS: Seconds = 300.0


class ImageDisks(Struct, frozen=True, kw_only=True):
    """Paths on the runtime's file systems; empty: not reported."""

    images: str = ""
    containers: str = ""
    """Writable layers; empty: where the images are."""


class MachineObserver:
    """The `Observer` of this machine."""

    def __init__(
        self,
        *,
        root_dir: Path,
        image_disks: Callable[[], Awaitable[ImageDisks]],
        clock: Clock,
        pods: tuple[CgroupDriver, str] | None = None,
    ) -> None:
        """``image_disks`` asks the runtime; ``pods``: the cgroup of all pods, to observe their common memory."""
        self._root = root_dir
        self._ask = image_disks
        self._clock = clock
        self._pods = pods
        self._runtime = ImageDisks()
        self._disks = Disks()
        self._asked_at: Seconds | None = None

    async def read(self) -> dict[Signal, SignalObservation]:
        """Read the signals; without those of images while the runtime has not reported their file system."""
        await self._find_images()
        found, self._disks = await blocking.call("pressure", self._read)
        return found

    async def read_memory(self) -> dict[Signal, SignalObservation]:
        """Read the signals of memory only."""
        return await blocking.call("pressure", self._memory)

    def disks(self) -> Disks:
        """Return which file systems the node had at the last ``read``."""
        return self._disks

    async def _find_images(self) -> None:
        now = self._clock.monotonic()
        if self._asked_at is not None and self._runtime.images and now - self._asked_at < _ASK_SECONDS:
            return
        try:
            self._runtime = await self._ask()
            self._asked_at = now
        except PykubeletError as error:
            _log.debug("pressure: file system of images unknown", extra={"error": str(error)})

    def _read(self) -> tuple[dict[Signal, SignalObservation], Disks]:
        pids = system.pid_limit()
        found = {**self._memory(), Signal.PIDS: SignalObservation(pids - system.process_count(), pids)}
        images = self._runtime.images
        containers = self._runtime.containers or images
        for path, space, inodes in (
            (str(self._root), Signal.NODEFS, Signal.NODEFS_INODES),
            (images, Signal.IMAGEFS, Signal.IMAGEFS_INODES),
            (containers, Signal.CONTAINERFS, Signal.CONTAINERFS_INODES),
        ):
            if path:
                found |= _filesystem(path, space, inodes)
        return found, Disks(
            own_images=fsusage.are_apart(str(self._root), images), own_containers=fsusage.are_apart(images, containers)
        )

    def _memory(self) -> dict[Signal, SignalObservation]:
        memory = machine_memory(procfs.machine("meminfo"), "")
        total = memory.limit or 0
        found = {Signal.MEMORY: SignalObservation(max(0, total - memory.working_set), total)}
        if self._pods is not None:
            found |= _pods_memory(*self._pods, total)
        return found


def _pods_memory(driver: CgroupDriver, path: str, total: int) -> dict[Signal, SignalObservation]:
    """Return the memory that is left of what all pods together may use: the limit of their cgroup, else ``total``."""
    try:
        used, limit = driver.stats(path).memory_working_set, driver.limits(path).memory_max
    except PykubeletError as error:
        _log.debug("pressure: cgroup of the pods not readable", extra={"path": path, "error": str(error)})
        return {}
    if used is None:
        return {}
    capacity = total if limit is None or limit == UNLIMITED else min(limit, total)
    return {Signal.ALLOCATABLE_MEMORY: SignalObservation(max(0, capacity - used), capacity)}


def _filesystem(path: str, space: Signal, inodes: Signal) -> dict[Signal, SignalObservation]:
    try:
        usage = fsusage.filesystem(path)
    except PykubeletError as error:
        _log.debug("pressure: file system not readable", extra={"path": path, "error": str(error)})
        return {}
    found = {space: SignalObservation(usage.available, usage.capacity)}
    if usage.inodes:  # some file systems create inodes on demand and report none
        found[inodes] = SignalObservation(usage.inodes_free, usage.inodes)
    return found
