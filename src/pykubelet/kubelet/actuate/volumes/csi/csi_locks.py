"""One lock per volume: a volume is staged once per node, so only one task at a time may stage or unstage it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.csi.csi_types import VolumeRef

_PATIENCE: Final[Seconds] = 120.0


class VolumeLocks:
    """Locks by volume; a lock exists only while a task holds it or waits for it."""

    def __init__(self, patience: Seconds = _PATIENCE) -> None:
        self._patience = patience
        self._locks: dict[VolumeRef, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, ref: VolumeRef) -> AsyncIterator[None]:
        """Hold the lock of the volume within the ``async with`` block.

        Raises Transient if it does not get free in time: the files of a large volume are given to a pod's group for
        hours, and another pod that waits for the volume has to say so.
        """
        lock, users = self._locks.get(ref, (asyncio.Lock(), 0))
        self._locks[ref] = (lock, users + 1)
        try:
            await self._acquire(lock, ref)
            try:
                yield
            finally:
                lock.release()
        finally:
            users = self._locks[ref][1] - 1
            if users:
                self._locks[ref] = (lock, users)
            else:
                del self._locks[ref]

    async def _acquire(self, lock: asyncio.Lock, ref: VolumeRef) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await lock.acquire()
        except TimeoutError as error:
            raise Transient(f"an operation with the given volume {ref} is still in progress: retrying") from error
