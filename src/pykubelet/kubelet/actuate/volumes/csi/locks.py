"""One lock per volume: what is staged once on a node is staged and unstaged by one at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykubelet.kubelet.actuate.volumes.csi.types import VolumeRef


class VolumeLocks:
    """Locks that are kept only while somebody has them or waits for them."""

    def __init__(self) -> None:
        self._locks: dict[VolumeRef, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, ref: VolumeRef) -> AsyncIterator[None]:
        """Have the volume to oneself within the ``async with`` block."""
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
