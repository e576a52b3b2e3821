"""`MemoryAlarm`: ends the rest between two looks when the kernel reports that memory may be short."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.observe.eviction.eviction_types import Signal
from pykubelet.linux.cgroups.memory_events import MemoryEvents

_log = logging.getLogger(__name__)

_STALL: Final[Seconds] = 0.05
_WINDOWS: Final[tuple[Seconds, ...]] = (1.0, 2.0)
"""The second one is for an agent without CAP_SYS_RESOURCE."""


_Identity = tuple[int, int]
"""Device and inode of a file."""


class AlarmConfig(Struct, frozen=True, kw_only=True):
    """The kernel's files; those that a machine lacks are left out, with a line in the log."""

    usage: Mapping[Signal, Path] = field(default_factory=dict)
    """Cgroups of version 1 whose usage belongs to a signal (``kernelMemcgNotification``)."""
    events: Path | None = None
    """``memory.events`` of all pods on version 2 (``kernelMemcgNotification``)."""
    pressure: Path | None = None
    """The machine's memory pressure file."""


class MemoryAlarm:
    """The kernel's notifications about memory. One task calls ``arm`` and ``wait``, and ``close`` at its end."""

    def __init__(self, config: AlarmConfig, clock: Clock) -> None:
        self._config = config
        self._wakeup = Wakeup(clock)
        self._events: MemoryEvents | None = None
        self._tried: dict[Path, _Identity | None] = {}
        """The files that were watched, or could not be; None: the file was missing."""
        self._failed = ""

    async def arm(self, growth: Mapping[Signal, tuple[Bytes, ...]]) -> None:
        """Ask the kernel to notify when the usage behind a signal has grown by one of these numbers of bytes.

        Never raises: a notification that cannot be had is logged once, and the periodic looks remain.
        """
        try:
            await blocking.call_to_end("pressure", self._arm, growth)
        except PykubeletError as error:
            self._report(error)

    async def wait(self, seconds: Seconds) -> bool:
        """Return True when the kernel has notified, False after this time.

        The descriptor is watched only meanwhile, so a storm of notifications costs the loop one wakeup per call.
        """
        events = self._events
        if events is None:
            await self._wakeup.sleep(seconds)
            return False
        if events.take():
            return True
        loop = asyncio.get_running_loop()
        self._wakeup.clear()
        loop.add_reader(events, self._notified, loop, events)
        try:
            await self._wakeup.sleep(seconds)
        finally:
            loop.remove_reader(events)
            taken = events.take()
        return taken or self._wakeup.woken

    def close(self) -> None:
        """End the notifications. Idempotent."""
        if self._events is not None:
            self._events.close()
            self._events = None
        self._tried.clear()

    def _notified(self, loop: asyncio.AbstractEventLoop, events: MemoryEvents) -> None:
        loop.remove_reader(events)
        self._wakeup.wake()

    def _arm(self, growth: Mapping[Signal, tuple[Bytes, ...]]) -> None:
        if self._events is None:
            self._events = MemoryEvents()
        for path in (self._config.pressure, self._config.events):
            if path is not None:
                self._watch(self._events, path)
        watched = [
            (directory, step)
            for signal, directory in self._config.usage.items()
            for step in growth.get(signal, ())
            if directory.exists()
        ]
        self._events.watch_growth(watched)

    def _watch(self, events: MemoryEvents, path: Path) -> None:
        """Watch a file unless it is watched, or could not be; again when another file is in its place."""
        found = _identity(path)
        if path in self._tried and self._tried[path] == found:
            return
        events.unwatch(path)
        self._tried[path] = found
        if found is None and path == self._config.events:
            return  # the pods' cgroup is created with the first pod, and may be removed and created again
        try:
            if path == self._config.pressure:
                _watch_pressure(events, path)
            else:
                events.watch_file(path)
        except PykubeletError as error:
            self._report(error)

    def _report(self, error: PykubeletError) -> None:
        if str(error) != self._failed:
            self._failed = str(error)
            _log.info("pressure: no notification by the kernel", extra={"error": str(error)})


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _watch_pressure(events: MemoryEvents, file: Path) -> None:
    for window in _WINDOWS[:-1]:
        try:
            events.watch_pressure(file, stall=_STALL, window=window)
        except Invalid:
            continue
        return
    events.watch_pressure(file, stall=_STALL, window=_WINDOWS[-1])
