"""Time that a pod waits for the controllers of the cluster to attach its volumes to the node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from pykubelet.base.units import Seconds

_PATIENCE: Final[Seconds] = 120.0
_HURRY: Final[Seconds] = 4.0


class AttachPatience:
    """Time that the volumes of one pod wait in one sync: less once another volume of the pod has failed.

    That one is tried again in the next sync only, which must not wait until the others have been attached. The Go
    kubelet tries each volume on its own.
    """

    def __init__(self, seconds: Seconds = _PATIENCE, hurried: Seconds = _HURRY) -> None:
        self.full: Final = seconds
        """Seconds that a volume waits if no other one fails."""
        self._seconds = seconds
        self._hurried = hurried
        self._waits: set[asyncio.Timeout] = set()

    def hurry(self) -> None:
        """End all waits in a few seconds at most: another volume of the pod has failed."""
        self._seconds = min(self._seconds, self._hurried)
        soon = asyncio.get_running_loop().time() + self._seconds
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(min(wait.when() or soon, soon))

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Limit the time of a wait; raises TimeoutError."""
        async with asyncio.timeout(self._seconds) as wait:
            self._waits.add(wait)
            try:
                yield
            finally:
                self._waits.discard(wait)
