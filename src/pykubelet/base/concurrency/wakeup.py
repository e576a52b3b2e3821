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
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """End the current sleep, or the next one if `clear` is not called before."""
        self._woken.set()

    def clear(self) -> None:
        """Forget earlier calls of `wake`."""
        self._woken.clear()

    @property
    def woken(self) -> bool:
        """Whether `wake` has been called since the last `clear`."""
        return self._woken.is_set()

    async def sleep(self, seconds: Seconds | None) -> None:
        """Sleep for this time, or until `wake` is called; None: only until then."""
        if seconds is None:
            await self._woken.wait()
            return
        async with asyncio.TaskGroup() as group:
            sleeper = group.create_task(self._clock.sleep(seconds), name=f"{self._name}-sleep")
            watcher = group.create_task(self._woken.wait(), name=f"{self._name}-wakeup")
            await asyncio.wait((sleeper, watcher), return_when=asyncio.FIRST_COMPLETED)
            sleeper.cancel()
            watcher.cancel()
