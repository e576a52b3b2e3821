"""A sleep that other tasks can end early: the timer of a loop that waits for its next due time, or for news."""

import asyncio

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds


class Wakeup:
    """The sleep of one task. Call `clear` before computing what is due, so that no `wake` is lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken = False
        self._sleeps: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """End the current sleep (of each task), or the next one if `clear` is not called before."""
        self._woken = True
        for sleep in self._sleeps:
            _end(sleep)

    def clear(self) -> None:
        """Forget earlier calls of `wake`."""
        self._woken = False

    @property
    def woken(self) -> bool:
        """Whether `wake` has been called since the last `clear`."""
        return self._woken

    async def sleep(self, seconds: Seconds | None) -> None:
        """Sleep for this time, or until `wake` is called; None: only until then."""
        if self._woken:
            await asyncio.sleep(0)
            return
        sleep = asyncio.get_running_loop().create_future()
        self._sleeps.add(sleep)
        timer = None if seconds is None else self._clock.call_later(seconds, lambda: _end(sleep))
        try:
            await sleep
        finally:
            self._sleeps.discard(sleep)
            if timer is not None:
                timer.cancel()


def _end(sleep: "asyncio.Future[None]") -> None:
    if not sleep.done():
        sleep.set_result(None)
