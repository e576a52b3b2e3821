"""Disk usage of the writable layers of containers."""

import asyncio
import logging
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.stats.stats_interfaces import LayerUsage
from pykubelet.criserver.storage import Snapshots
from pykubelet.criserver.storage.trash import Trash
from pykubelet.criserver.types import ContainerID

_log = logging.getLogger(__name__)
_COUNT_EVERY: Seconds = 30.0


class WritableLayers:
    """Disk usage of the containers' writable layers; a ``stats.stats_interfaces.Layers``."""

    def __init__(self, *, snapshots: Snapshots, trash: Trash, directory: Path, clock: Clock) -> None:
        """``trash``: what removed containers have written and is not deleted yet."""
        self._snapshots = snapshots
        self._trash = trash
        self._directory = str(directory)
        self._clock = clock
        self._counted: LayerUsage | None = None
        self._counted_at: Seconds = 0.0
        self._counting = asyncio.Lock()

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        """Measure what one container has written; None when it is unknown."""
        try:
            found = await self._snapshots.usage(container)
        except NotFound:
            return None
        except (PykubeletError, OSError) as error:
            _log.warning(
                "disk usage of a writable layer unavailable", extra={"container": container, "error": str(error)}
            )
            return None
        if found is None:
            return None
        return LayerUsage(self._directory, found.bytes, found.inodes)

    async def total(self) -> LayerUsage:
        """Sum what all containers have written, and what removed ones have written and is not deleted yet.

        Cached for 30 seconds, since it walks all their files.
        """
        async with self._counting:
            now = self._clock.monotonic()
            if self._counted is None or now - self._counted_at >= _COUNT_EVERY:
                self._counted, self._counted_at = await self._count(), now
            return self._counted

    async def _count(self) -> LayerUsage:
        names = self._snapshots.containers()
        # Concurrently: each may take long.
        found = await asyncio.gather(*(self.usage(ContainerID(name)) for name in names))
        layers = [each for each in found if each is not None]
        try:
            trash = await self._trash.usage()
        except (PykubeletError, OSError) as error:
            _log.warning("disk usage of the trash unavailable", extra={"error": str(error)})
        else:
            layers.append(LayerUsage(self._directory, trash.bytes, trash.inodes))
        used = Bytes(sum(each.used for each in layers))
        return LayerUsage(self._directory, used, sum(each.inodes for each in layers))
