"""Pods that are wanted at once start a few at a time.

Started all together they would hinder each other in the kernel's locks and in the runtime, and all would be ready only
at the end; a few at a time end sooner on the whole, and the first ones right away.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pykubelet.base.units import Seconds


class StartSlots:
    """So many holders at a time, in the order of asking.

    A turn held for longer than ``longest`` is given away: a runtime or network plugin that hangs with some pods must
    not keep the others from starting.
    """

    def __init__(self, count: int, longest: Seconds) -> None:
        self._free = asyncio.Semaphore(count)
        self._longest = longest

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn and hold it."""
        await self._free.acquire()
        held = True

        def give() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._longest, give)
        try:
            yield
        finally:
            timer.cancel()
            give()
