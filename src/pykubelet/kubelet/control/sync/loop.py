"""The sync loop: one queue, one reader, no waiting on any pod.

Everything that happens arrives as a value in the queue; the loop records what is wanted and pokes the workers
concerned. It never awaits a runtime call, so one stuck pod cannot hold it up.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from pykubelet.kubelet.control.sync.ports import LoopDeps
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.probes import ProbeUpdate
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent
from pykubelet.kubelet.types.updates import PodOp, PodUpdate


@dataclass(frozen=True, slots=True)
class PodsAffected:
    """Objects that these pods use (ConfigMaps, Secrets) have changed."""

    uids: frozenset[PodUID]


@dataclass(frozen=True, slots=True)
class RuntimeRecovered:
    """The runtime answers again after it did not."""


LoopEvent = PodUpdate | PodLifecycleEvent | ProbeUpdate | PodsAffected | RuntimeRecovered


class SyncLoop:
    """Reads the queue for ever. :meth:`post` may be called by any stage from the event loop's thread."""

    def __init__(self, deps: LoopDeps) -> None:
        self._deps = deps
        self._queue: asyncio.Queue[LoopEvent] = asyncio.Queue()
        self.last_active = deps.clock.monotonic()
        """Monotonic time at which the loop last finished an event or found nothing to do."""

    def post(self, event: LoopEvent) -> None:
        """Hand an event to the loop; never blocks."""
        self._queue.put_nowait(event)

    def is_stuck(self, limit_seconds: float) -> bool:
        """Whether events have been waiting for longer than the limit without one being taken."""
        return not self._queue.empty() and self._deps.clock.monotonic() - self.last_active > limit_seconds

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            if self._queue.empty():
                self.last_active = self._deps.clock.monotonic()
            event = await self._queue.get()
            self.handle(event)
            self.last_active = self._deps.clock.monotonic()

    def handle(self, event: LoopEvent) -> None:
        """Act on one event: note what is wanted, wake the workers concerned."""
        match event:
            case PodUpdate():
                self._apply(event)
            case PodLifecycleEvent(type=PodEventType.CONTAINER_REMOVED):
                pass  # Only the agent removes containers; whoever did knows.
            case PodLifecycleEvent(uid=uid) | ProbeUpdate(uid=uid):
                self._deps.workers.poke(uid)
            case PodsAffected(uids=uids):
                self._poke(uids)
            case RuntimeRecovered():
                self._deps.workers.poke_all()
            case _:
                assert_never(event)

    def _poke(self, uids: Iterable[PodUID]) -> None:
        for uid in uids:
            self._deps.workers.poke(uid)

    def _apply(self, update: PodUpdate) -> None:
        for pod in update.pods:
            uid = PodUID(pod.metadata.uid)
            match update.op:
                case PodOp.ADD | PodOp.UPDATE | PodOp.DELETE:
                    if update.op is PodOp.ADD:
                        self._deps.timeline.pod_seen(pod)
                    self._deps.pods.set(pod)
                    self._deps.workers.update(pod)
                case PodOp.REMOVE:
                    self._deps.pods.remove(uid)
                    self._deps.workers.remove(uid)
                case PodOp.RECONCILE:
                    self._deps.pods.set(pod)
                case _:
                    assert_never(update.op)
