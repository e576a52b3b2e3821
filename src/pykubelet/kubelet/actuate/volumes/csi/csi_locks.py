"""One lock per volume: a volume is staged once per node, so only one task at a time may stage or unstage it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykubelet.kubelet.actuate.volumes.csi.csi_types import VolumeRef


class VolumeLocks:
    """Locks by volume; a lock exists only while a task holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[VolumeRef, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, ref: VolumeRef) -> AsyncIterator[None]:
        """Hold the lock of the volume within the ``async with`` block."""
        lock, users = self._locks.get(ref, (asyncio.Lock(), 0))
        self._locks[ref] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self._locks[ref][1] - 1
            if users:
                self._locks[ref] = (lock, users)
            else:
                del self._locks[ref]
