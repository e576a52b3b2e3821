"""Housekeeping: finds and removes orphaned pods, directories, mounts and cgroups, left by a crash or a lost race.

Only after every source has been read, so that a pod is never treated as an orphan because its source is slow; nor is
one that its source has but cannot read. Until then, which may take days without the API server, it removes what of each
pod would be garbage anyway: containers that crash leave dead ones all the time.
"""

import asyncio
import logging
from collections.abc import Callable

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.control.sync.plan.orphans import find_orphans
from pykubelet.kubelet.control.sync.sync_interfaces import HousekeepingDeps
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.events import WARNING, Reason

_log = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 10.0
STARTUP_CHECK_SECONDS = 0.1
GC_SECONDS = 60.0


class Housekeeping:
    """The periodic cleanup: looks for orphans every 10 s and collects garbage of the runtime every minute."""

    def __init__(self, deps: HousekeepingDeps, sources_ready: Callable[[], bool]) -> None:
        """``sources_ready`` returns whether every source has been read."""
        self._deps = deps
        self._sources_ready = sources_ready
        self._rounds = Guard("housekeeping.rounds", deps.telemetry.clock.monotonic)
        self._pods = Guard("housekeeping.pods", deps.telemetry.clock.monotonic)
        self._leftovers = Guard("housekeeping.leftovers", deps.telemetry.clock.monotonic)
        self._next_report: Seconds = 0.0
        """Time from which on a failed collection is reported again."""
        self._purging: set[PodUID] = set()
        """Leftovers that are being removed."""

    async def run(self) -> None:
        """Run rounds until cancelled; failures are logged and retried in the next round.

        Garbage is collected in the first round, since an agent killed while it removed a pod may have left its logs.
        """
        clock = self._deps.telemetry.clock
        next_gc = clock.monotonic() + GC_SECONDS
        while not self._sources_ready():
            if clock.monotonic() >= next_gc:
                with self._rounds.item("round") as attempt:
                    await self._deps.garbage.gc(None)
                if attempt.error is not None:
                    self._report(attempt.error)
                next_gc = clock.monotonic() + GC_SECONDS
            await clock.sleep(STARTUP_CHECK_SECONDS)
        next_gc = clock.monotonic()
        async with asyncio.TaskGroup() as purges:
            while True:
                with self._rounds.item("round") as attempt:
                    await self.tidy(purges)
                    if clock.monotonic() >= next_gc:
                        await self._deps.garbage.gc(self._wanted)
                        next_gc = clock.monotonic() + GC_SECONDS
                if attempt.error is not None and clock.monotonic() >= next_gc:
                    self._report(attempt.error)
                _log.debug("housekeeping: round ended")
                await clock.sleep(HOUSEKEEPING_SECONDS)

    def _report(self, error: Exception) -> None:
        """Send an event for a collection that is due and failed, at most once a minute."""
        now = self._deps.telemetry.clock.monotonic()
        if now >= self._next_report:
            self._deps.telemetry.events.event(None, WARNING, Reason.CONTAINER_GC_FAILED, str(error))
            self._next_report = now + GC_SECONDS

    async def tidy(self, purges: asyncio.TaskGroup) -> None:
        """Do one round. The workers are listed last, so that a pod that arrives meanwhile is not seen as an orphan.

        No round waits for a removal that takes long: it goes on in ``purges`` while others begin.
        """
        runtime = await self._deps.node_pods.runtime_pods()
        on_disk: set[PodUID] = set()
        with self._rounds.item("pods on disk"):
            on_disk = await self._deps.node_pods.pods_on_disk()
        orphans = find_orphans(self._wanted(), runtime, on_disk)
        for ref in self._pods.due(orphans.pods):
            with self._pods.item(str(ref)):
                self._deps.workers.adopt_orphan(ref)
        for uid in self._leftovers.due(orphans.leftovers):
            if uid not in self._purging:
                self._purging.add(uid)
                purges.create_task(self._purge(uid), name=f"purge {uid}")
        self._deps.telemetry.metrics.orphans_swept(len(orphans.leftovers), len(self._leftovers.failing))

    def _wanted(self) -> frozenset[PodUID]:
        """Return the pods that have a worker, and those of the sources, which may run although they have none yet."""
        return self._deps.wanted().union(self._deps.workers.known)

    async def _purge(self, uid: PodUID) -> None:
        try:
            with self._leftovers.item(uid):
                if uid not in self._leftovers.failing:
                    _log.info("housekeeping: removing leftovers of a removed pod", extra={"uid": uid})
                await self._deps.node_pods.purge(uid)
        finally:
            self._purging.discard(uid)
