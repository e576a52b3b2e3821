"""A sleep that other tasks can end early: the timer of a loop that waits for its next due time, or for news."""

import asyncio

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds


class Wakeup:
    """The sleep of one task. Call `clear` before computing what is due, so that no `wake` is lost."""

    def __init__(self, clock: Clock, name: str) -> None:
        """``name`` is the prefix of the names of the tasks that wait."""
        self._clock = clock
        self._name = name
        self._woken = False
        self._sleep: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the current sleep, or the next one if `clear` is not called before."""
        self._woken = True
        self._end_sleep()

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
        self._sleep = asyncio.get_running_loop().create_future()
        sleeper = None
        if seconds is not None:
            sleeper = asyncio.create_task(self._clock.sleep(seconds), name=f"{self._name}-sleep")
            sleeper.add_done_callback(self._end_sleep)
        try:
            await self._sleep
        finally:
            self._sleep = None
            if sleeper is not None:
                sleeper.remove_done_callback(self._end_sleep)
                sleeper.cancel()

    def _end_sleep(self, sleeper: "asyncio.Task[None] | None" = None) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)
