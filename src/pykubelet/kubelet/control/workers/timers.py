"""Wake-up times of all pod workers, served by one task that sleeps until the next one."""

import heapq
import math
from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.kubelet.types.ids import PodUID

_LONGEST_SLEEP = 30.0


class WakeTimers:
    """A heap of wake-up times, one live entry per pod, served by a single task.

    Times are monotonic seconds, so that a jump of the wall clock does not move a wake-up.
    """

    def __init__(self, clock: Clock, wake: Callable[[PodUID], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._guard = Guard("workers.timers", clock.monotonic)
        self._due: dict[PodUID, float] = {}
        self._heap: list[tuple[float, PodUID]] = []
        self._wakeup = Wakeup(clock)
        self._sleeping_until = math.inf

    def set(self, uid: PodUID, at: float) -> None:
        """Wake the pod at this monotonic time; replaces its previous one."""
        self._due[uid] = at
        heapq.heappush(self._heap, (at, uid))
        if at < self._sleeping_until:
            self._wakeup.wake()

    def due(self, uid: PodUID) -> float | None:
        """Return the pod's wake-up time; None: it has none."""
        return self._due.get(uid)

    def cancel(self, uid: PodUID) -> None:
        """Drop the pod's wake-up time."""
        self._due.pop(uid, None)

    async def run(self) -> None:
        """Wake pods at their times, until cancelled."""
        while True:
            now = self._clock.monotonic()
            while self._heap and (self._heap[0][0] <= now or self._due.get(self._heap[0][1]) != self._heap[0][0]):
                at, uid = heapq.heappop(self._heap)
                if self._due.get(uid) == at:
                    del self._due[uid]
                    with self._guard.item(uid):
                        self._wake(uid)
            self._wakeup.clear()
            await self._sleep(self._heap[0][0] - now if self._heap else _LONGEST_SLEEP)

    async def _sleep(self, seconds: float) -> None:
        """Sleep for this time, or until an earlier wake-up is set."""
        seconds = min(seconds, _LONGEST_SLEEP)
        self._sleeping_until = self._clock.monotonic() + seconds
        await self._wakeup.sleep(seconds)
        self._sleeping_until = -math.inf
