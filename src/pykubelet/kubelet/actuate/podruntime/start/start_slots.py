"""Concurrency limit for pod starts.

Many pods that start at the same time contend for kernel locks and for the runtime, and all of them become ready late.
With a few at a time the whole set is ready sooner, and the first pods are ready at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pykubelet.base.units import Seconds

_LEAST = 8
_PER_CPU = 4


def slot_count(cpus: int) -> int:
    """Return how many pods may start at the same time on a machine with so many CPUs."""
    return max(_LEAST, _PER_CPU * cpus)


class StartSlots:
    """``count`` slots, handed out in the order of requests.

    A slot held for longer than ``longest`` seconds is released to the next pod: a runtime or network plugin that hangs
    on some pods must not block the others.
    """

    def __init__(self, count: int, longest: Seconds) -> None:
        self._free = asyncio.Semaphore(count)
        self._longest = longest

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free slot and hold it within the ``async with`` block."""
        await self._free.acquire()
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._longest, release)
        try:
            yield
        finally:
            timer.cancel()
            release()
