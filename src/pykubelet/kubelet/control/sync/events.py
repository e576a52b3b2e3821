"""Events of the sync loop, and the queue through which every stage sends them."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.probes import ProbeUpdate
from pykubelet.kubelet.types.runtime import PodLifecycleEvent
from pykubelet.kubelet.types.updates import PodUpdate

RETRY_SECONDS = 180.0


class PodsAffected(Struct, frozen=True):
    """An event: objects that these pods use (ConfigMaps, Secrets) have changed."""

    uids: frozenset[PodUID]


class RuntimeRecovered(Struct, frozen=True):
    """An event: the runtime responds again."""


class PeriodicRetry(Struct, frozen=True):
    """An event: time to retry failed updates, and resizes that were deferred."""


class NodeRead(Struct, frozen=True):
    """An event: the Node object has been read again, or could not be read, for all requests up to this number."""

    request: int


LoopEvent = PodUpdate | PodLifecycleEvent | ProbeUpdate | PodsAffected | RuntimeRecovered | PeriodicRetry | NodeRead


class EventQueue:
    """The queue of the sync loop; built before all components that post events. For the event loop's thread."""

    def __init__(self, monotonic: Callable[[], Seconds]) -> None:
        """``monotonic`` is the clock's."""
        self._queue: asyncio.Queue[LoopEvent] = asyncio.Queue()
        self._monotonic = monotonic
        self.filled_at: Seconds = monotonic()
        """Monotonic time at which an event last came into the empty queue."""

    def post(self, event: LoopEvent) -> None:
        """Put an event into the queue; never blocks."""
        if self._queue.empty():
            self.filled_at = self._monotonic()
        self._queue.put_nowait(event)

    def post_affected(self, uids: frozenset[PodUID]) -> None:
        """Post that objects which these pods use have changed."""
        self.post(PodsAffected(uids))

    def post_recovered(self) -> None:
        """Post that the runtime responds again."""
        self.post(RuntimeRecovered())

    def post_node_read(self, request: int) -> None:
        """Post that the Node object has been read for all requests up to this number."""
        self.post(NodeRead(request))

    def empty(self) -> bool:
        """Whether no event waits."""
        return self._queue.empty()

    async def get(self) -> LoopEvent:
        """Wait for the next event and remove it from the queue."""
        return await self._queue.get()


async def post_periodic_retries(clock: Clock, post: Callable[[LoopEvent], None]) -> None:
    """Post a `PeriodicRetry` every 180 s until cancelled: pods may shrink or end without an update of a source."""
    while True:
        await clock.sleep(RETRY_SECONDS)
        post(PeriodicRetry())
