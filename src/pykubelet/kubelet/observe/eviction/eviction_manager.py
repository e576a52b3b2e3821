"""`EvictionManager`: reads the machine's signals, keeps the node conditions, and evicts pods until they end."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter

from msgspec.structs import replace

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_interfaces import EvictionDeps
from pykubelet.kubelet.observe.eviction.eviction_types import (
    CONDITION_OF,
    RESOURCE_OF,
    ContainerUse,
    DiskUse,
    Eviction,
    EvictionConfig,
    PodUse,
    PressureCondition,
    Reclaim,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.plan import disks, looks, thresholds
from pykubelet.kubelet.observe.eviction.plan.local_limits import GRACE, exceeded, has_limits
from pykubelet.kubelet.observe.eviction.plan.ranking import Rank, rank, reported
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.resources.qos import is_critical
from pykubelet.kubelet.types.resources.stats import FsStats, PodStats
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

CHECK_SECONDS: Seconds = 10.0
CLEANUP_SECONDS: Seconds = 30.0
QUIET_SECONDS: Seconds = 0.1
"""Time after a notification in which no other one is taken, so that a storm of them costs ten readings per second.

This holds for full checks, too, when memory is short in one reading and not in the next one.
"""
FRESH_SECONDS: Seconds = 1.0
"""Greatest age of the figures by which a pod is selected."""


class EvictionManager:
    """Node pressure and eviction. Critical pods, static ones included, are never evicted."""

    def __init__(self, deps: EvictionDeps, config: EvictionConfig) -> None:
        self._deps = deps
        self._config = config
        self._rounds = Guard("pressure.rounds", deps.telemetry.clock.monotonic)
        self._pods = Guard("pressure.pods", deps.telemetry.clock.monotonic)
        self._state = thresholds.PressureState()
        self._conditions: frozenset[PressureCondition] = frozenset()
        self._seen: Mapping[Signal, SignalObservation] = {}
        self._read_at: Seconds = 0.0
        self._quiet_until: Seconds = 0.0
        self._short = False
        """Whether the last rest ended because memory had become short."""

    def reconfigure(self, config: EvictionConfig) -> None:
        """Decide by these settings from the next check on; grace periods of met thresholds go on."""
        self._config = config

    def conditions(self) -> frozenset[PressureCondition]:
        """Return the pressure conditions of the node."""
        return self._conditions

    async def run(self) -> None:
        """Check until cancelled: every ten seconds, when memory has become short, and when an evicted pod has ended."""
        try:
            while True:
                gone: Sequence[PodUID] = ()
                with self._rounds.item("look") as attempt:
                    gone = await self.check()
                if gone:
                    await self._wait_for(gone)
                elif attempt.error is not None:
                    await self._deps.telemetry.clock.sleep(CHECK_SECONDS)
                else:
                    await self._rest()
        finally:
            self._deps.alarm.close()

    async def check(self) -> Sequence[PodUID]:
        """Do one check; return the pods that it evicts."""
        seen = await self._observe()
        evicted = await self._enforce_limits() if self._config.local_storage else ()
        if evicted or not self._state.met:
            return evicted
        threshold = self._state.met[0]
        self._announce(threshold)
        what = disks.reclaims(threshold.signal, self._deps.observer.disks())
        if what and await self._reclaim(what):
            return ()
        return await self._evict_one(threshold, seen)

    def _announce(self, threshold: Threshold) -> None:
        message = f"Attempting to reclaim {RESOURCE_OF[threshold.signal]}"
        self._deps.telemetry.events.event(None, WARNING, Reason.EVICTION_THRESHOLD_MET, message)

    async def _rest(self) -> None:
        """Wait for the next look: ten seconds, less if a threshold of memory is met that was not met before."""
        clock, alarm, config = self._deps.telemetry.clock, self._deps.alarm, self._config.thresholds
        if not looks.memory_thresholds(config):
            await clock.sleep(CHECK_SECONDS)
            return
        if (quiet := self._quiet_until - clock.monotonic()) > 0:
            await clock.sleep(quiet)
        until, seen = clock.monotonic() + CHECK_SECONDS, self._seen
        while (left := until - clock.monotonic()) > 0:
            pause = left
            with self._rounds.item("memory"):
                await alarm.arm(looks.growth(config, seen))
                look = looks.next_look(config, seen, left)
                notified = await alarm.wait(look)
                if not notified and look >= left:
                    break  # the rest is over, and the check that follows reads all signals
                pause = QUIET_SECONDS if notified else 0.0
                seen = await self._deps.observer.read_memory()
                if looks.newly_met(config, self._state.since, seen):
                    self._note_shortage()
                    return
            await clock.sleep(pause)
        self._short = False

    def _note_shortage(self) -> None:
        """Log a shortage, once until a rest has passed without one, and let the next rest begin with a pause.

        The check that follows may read other figures, and meet nothing.
        """
        self._quiet_until = self._deps.telemetry.clock.monotonic() + QUIET_SECONDS
        if not self._short:
            _log.info("pressure: memory has become short since the last look")
        self._short = True

    async def _observe(self) -> Mapping[Signal, SignalObservation]:
        self._read_at = self._deps.telemetry.clock.monotonic()
        seen, now = await self._deps.observer.read(), self._deps.telemetry.clock.monotonic()
        self._seen = seen
        config = replace(self._config, thresholds=self._thresholds())
        self._state = thresholds.next_state(self._state, config, seen, now)
        before, self._conditions = self._conditions, thresholds.conditions(self._state, self._config, now)
        if before != self._conditions:
            _log.info("pressure: node conditions changed", extra={"conditions": sorted(self._conditions)})
        return seen

    def _thresholds(self) -> tuple[Threshold, ...]:
        """Return the thresholds that hold with the file systems of the last look."""
        return disks.with_container_disk(self._config.thresholds, self._deps.observer.disks())

    async def _reclaim(self, what: Collection[Reclaim]) -> bool:
        """Free disk space; return whether no threshold is met any more, each with its minimum reclaim."""
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch_memory(), name="memory-during-reclaim")
            try:
                await self._deps.reclaimer.reclaim(what)
            except PykubeletError as error:
                _log.warning("pressure: reclaiming disk space failed", extra={"error": str(error)})
            finally:
                watch.cancel()
        seen = await self._deps.observer.read()
        return not thresholds.met(self._thresholds(), seen, with_reclaim=True)

    async def _watch_memory(self) -> None:
        """Evict pods for memory until cancelled: meanwhile images are removed one by one, which may take minutes."""
        while True:
            await self._rest()
            with self._rounds.item("memory during reclaim"):
                seen = await self._observe()
                met = looks.memory_thresholds(self._state.met)
                if met:
                    self._announce(met[0])
                    await self._wait_for(await self._evict_one(met[0], seen))

    async def _enforce_limits(self) -> Sequence[PodUID]:
        """Evict all pods that exceed a limit of local storage."""
        limited = [pod for pod in self._deps.workers.evictable(GRACE) if has_limits(pod) and not is_critical(pod)]
        if not limited:
            return ()
        uses = await self._uses()
        evicted: list[PodUID] = []
        for pod in limited:
            uid = ref_of(pod).uid
            with self._pods.item(uid):
                eviction = exceeded(pod, uses[uid], self._deps.observer.disks()) if uid in uses else None
                if eviction is not None:
                    evicted.append(self._evict(pod, eviction))
        return evicted

    async def _evict_one(self, threshold: Threshold, seen: Mapping[Signal, SignalObservation]) -> Sequence[PodUID]:
        active = list(self._deps.workers.evictable(GRACE if threshold.hard else self._config.max_grace))
        if all(is_critical(pod) for pod in active):
            fields = {"resource": RESOURCE_OF[threshold.signal], "pods": len(active)}
            _log.error("pressure: threshold met, but all pods are critical; nothing to evict", extra=fields)
            return ()
        memory = CONDITION_OF[threshold.signal] is PressureCondition.MEMORY
        uses = await self._uses(only_memory=memory, max_age=FRESH_SECONDS)
        for each in self._state.met:
            self._deps.telemetry.metrics.eviction_decided(
                each.signal, self._deps.telemetry.clock.monotonic() - self._read_at
            )
        for pod, use in self._in_order(active, uses, threshold):
            if not is_critical(pod):
                with self._pods.item(f"{ref_of(pod).uid}: eviction"):
                    text, annotations = reported(pod, use, threshold, seen.get(threshold.signal))
                    grace = self._grace(pod, threshold)
                    return [self._evict(pod, Eviction(text, threshold.signal, grace, annotations=annotations))]
        return ()

    def _in_order(
        self, pods: Iterable[Pod], uses: Mapping[PodUID, PodUse], threshold: Threshold
    ) -> list[tuple[Pod, PodUse | None]]:
        """Sort the pods in the order of eviction, each with its usage if known.

        Pods whose rank cannot be computed come last, those of low priority first, without usage for their messages.
        """
        resource, measured = RESOURCE_OF[threshold.signal], disks.parts(threshold.signal, self._deps.observer.disks())
        ranks: list[tuple[Rank, Pod, PodUse | None]] = []
        others: list[Pod] = []
        for pod in pods:
            use = uses.get(ref_of(pod).uid)
            with self._pods.item(f"{ref_of(pod).uid}: rank") as attempt:
                ranks.append((rank(pod, use, resource, measured), pod, use))
            if attempt.error is not None:
                others.append(pod)
        sound = [(pod, use) for _, pod, use in sorted(ranks, key=itemgetter(0))]
        return [*sound, *((pod, None) for pod in sorted(others, key=lambda pod: pod.spec.priority or 0))]

    def _grace(self, pod: Pod, threshold: Threshold) -> int:
        if threshold.hard:
            return GRACE
        own = pod.spec.termination_grace_period_seconds
        return self._config.max_grace if own is None else min(own, self._config.max_grace)

    def _evict(self, pod: Pod, eviction: Eviction) -> PodUID:
        ref = ref_of(pod)
        _log.info(
            "pressure: evicting pod", extra={"pod": str(ref), "signal": eviction.signal, "grace_s": eviction.grace}
        )
        self._deps.telemetry.events.event(
            ref, WARNING, Reason.EVICTED, eviction.message, annotations=eviction.annotations
        )
        self._deps.telemetry.metrics.evicted(eviction.signal)
        self._deps.workers.fail(ref.uid, Reason.EVICTED, eviction.message, eviction.grace, disrupts=eviction.disrupts)
        return ref.uid

    async def _uses(self, *, only_memory: bool = False, max_age: Seconds | None = None) -> dict[PodUID, PodUse]:
        found: dict[PodUID, PodUse] = {}
        summary = await self._deps.usage(only_cpu_and_memory=only_memory, max_age=max_age, rates=False)
        for stats in summary.pods:
            with self._pods.item(stats.pod_ref.uid):
                found[PodUID(stats.pod_ref.uid)] = pod_use(stats)
        return found

    async def _wait_for(self, uids: Sequence[PodUID]) -> None:
        """Wait until these pods have ended, at most 30 s."""
        clock = self._deps.telemetry.clock
        deadline = clock.monotonic() + CLEANUP_SECONDS
        while clock.monotonic() < deadline and not all(self._deps.workers.ended(uid) for uid in uids):
            await clock.sleep(1.0)


def pod_use(stats: PodStats) -> PodUse:
    """Convert a pod's figures of the Summary API to those that eviction uses."""
    storage = stats.ephemeral_storage
    return PodUse(
        memory=(stats.memory.working_set_bytes if stats.memory else None) or 0,
        disk=(storage.used_bytes if storage else None) or 0,
        processes=(stats.process_stats.process_count if stats.process_stats else None) or 0,
        containers={
            each.name: ContainerUse(
                memory=each.memory.working_set_bytes if each.memory else None,
                rootfs=_disk_use(each.rootfs),
                logs=_disk_use(each.logs),
            )
            for each in stats.containers
        },
        volumes={
            each.name: DiskUse(each.used_bytes, each.inodes_used or 0)
            for each in stats.volume
            if each.used_bytes is not None
        },
    )


def _disk_use(stats: FsStats | None) -> DiskUse | None:
    if stats is None or stats.used_bytes is None:
        return None
    return DiskUse(stats.used_bytes, stats.inodes_used or 0)
