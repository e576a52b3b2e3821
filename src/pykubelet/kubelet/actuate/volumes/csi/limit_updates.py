"""Asks CSI drivers again how many volumes the node can have, if their CSIDriver objects ask for it (KEP-4876).

``spec.nodeAllocatableUpdatePeriodSeconds`` is the period; without it a driver is asked when it registers only. With it,
a driver is also asked when a volume is not attached since the limit is reached.
"""

from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiEvents
from pykubelet.kubelet.actuate.volumes.csi.driver_registry import DriverRegistry
from pykubelet.kubelet.actuate.volumes.volume_interfaces import CsiObjects
from pykubelet.kubelet.types.storage import DriverNodeInfo

_INTERVAL: Final[Seconds] = 10.0
"""The shortest period that the API allows; no driver is asked more often."""


class LimitUpdates:
    """Reports changed limits as if the driver had registered again."""

    def __init__(self, *, drivers: DriverRegistry, objects: CsiObjects, events: CsiEvents, clock: Clock) -> None:
        self._drivers = drivers
        self._objects = objects
        self._events = events
        self._clock = clock
        self._news = Wakeup(clock)
        self._guard = Guard("csi.limits", clock.monotonic)
        self._known: dict[str, DriverNodeInfo] = {}
        self._asked: dict[str, Seconds] = {}
        self._reached: set[str] = set()
        """Drivers whose limit was reached since they were asked."""
        events.installed.subscribe(self._installed)
        events.removed.subscribe(self._removed)
        events.limit_reached.subscribe(self._limit_reached)

    async def run(self) -> None:
        """Ask the drivers whose period is over, or whose limit was reached, until cancelled."""
        while True:
            await self._news.sleep(_INTERVAL)
            self._news.clear()
            for name in self._guard.due(sorted(self._known)):
                with self._guard.item(name):
                    await self._update(name)

    async def _update(self, name: str) -> None:
        found = await self._objects.driver(name)
        period = found.spec.node_allocatable_update_period_seconds if found is not None else None
        now = self._clock.monotonic()
        if not period or name not in self._asked:
            return
        if now - self._asked[name] < (_INTERVAL if name in self._reached else period):
            return
        self._asked[name] = now
        self._reached.discard(name)
        info = await self._drivers.client(name).info()
        if info.node_id and name in self._known and info != self._known[name]:
            self._events.installed(name, info)

    def _installed(self, name: str, info: DriverNodeInfo) -> None:
        self._known[name] = info
        self._asked[name] = self._clock.monotonic()

    def _limit_reached(self, name: str) -> None:
        self._reached.add(name)
        self._news.wake()

    def _removed(self, name: str) -> None:
        self._known.pop(name, None)
        self._asked.pop(name, None)
        self._reached.discard(name)
