"""`EvictionManager`: reads the machine's signals, keeps the node conditions, and evicts pods until they end."""

import logging
from collections.abc import Mapping, Sequence

from pykubelet.base.errors import PykubeletError
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.eviction.eviction_interfaces import EvictionDeps
from pykubelet.kubelet.observe.eviction.eviction_types import (
    CONDITION_OF,
    RESOURCE_OF,
    Condition,
    ContainerUse,
    Eviction,
    EvictionConfig,
    Observation,
    PodUse,
    Signal,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.plan import thresholds
from pykubelet.kubelet.observe.eviction.plan.local_limits import GRACE, exceeded, has_limits
from pykubelet.kubelet.observe.eviction.plan.ranking import message, ranked
from pykubelet.kubelet.types.events import WARNING, Reason
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.qos import is_critical
from pykubelet.kubelet.types.stats import PodStats
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

CHECK_SECONDS: Seconds = 10.0
CLEANUP_SECONDS: Seconds = 30.0


class EvictionManager:
    """Node pressure and eviction. Critical pods, static ones included, are never evicted."""

    def __init__(self, deps: EvictionDeps, config: EvictionConfig) -> None:
        self._deps = deps
        self._config = config
        self._rounds = Guard("pressure.rounds", deps.telemetry.clock.monotonic)
        self._pods = Guard("pressure.pods", deps.telemetry.clock.monotonic)
        self._state = thresholds.PressureState()
        self._conditions: frozenset[Condition] = frozenset()
        self._read_at: Seconds = 0.0

    def conditions(self) -> frozenset[Condition]:
        """Return the pressure conditions of the node."""
        return self._conditions

    async def run(self) -> None:
        """Check every ten seconds until cancelled; after an eviction, as soon as the pod has ended."""
        while True:
            gone: Sequence[PodUID] = ()
            with self._rounds.item("look"):
                gone = await self.check()
            if gone:
                await self._wait_for(gone)
            else:
                await self._deps.telemetry.clock.sleep(CHECK_SECONDS)

    async def check(self) -> Sequence[PodUID]:
        """Do one check; return the pods that it evicts."""
        seen = await self._observe()
        evicted = await self._enforce_limits() if self._config.local_storage else ()
        if evicted or not self._state.met:
            return evicted
        threshold = self._state.met[0]
        resource = RESOURCE_OF[threshold.signal]
        self._deps.telemetry.events.event(
            None, WARNING, Reason.EVICTION_THRESHOLD_MET, f"Attempting to reclaim {resource}"
        )
        if CONDITION_OF[threshold.signal] is Condition.DISK and await self._reclaim():
            return ()
        return await self._evict_one(threshold, seen)

    async def _observe(self) -> Mapping[Signal, Observation]:
        self._read_at = self._deps.telemetry.clock.monotonic()
        seen, now = await self._deps.observer.read(), self._deps.telemetry.clock.monotonic()
        self._state = thresholds.next_state(self._state, self._config, seen, now)
        before, self._conditions = self._conditions, thresholds.conditions(self._state, self._config, now)
        if before != self._conditions:
            _log.info("pressure: node conditions changed", extra={"conditions": sorted(self._conditions)})
        return seen

    async def _reclaim(self) -> bool:
        """Free disk space; return whether that was enough."""
        try:
            await self._deps.reclaimer.reclaim()
        except PykubeletError as error:
            _log.warning("pressure: reclaiming disk space failed", extra={"error": str(error)})
        seen = await self._deps.observer.read()
        return not thresholds.met(self._state.met, seen, with_reclaim=True)

    async def _enforce_limits(self) -> Sequence[PodUID]:
        """Evict all pods that exceed a limit of local storage."""
        limited = [pod for pod in self._deps.workers.active() if has_limits(pod) and not is_critical(pod)]
        if not limited:
            return ()
        uses = await self._uses()
        evicted: list[PodUID] = []
        for pod in limited:
            uid = ref_of(pod).uid
            with self._pods.item(uid):
                eviction = exceeded(pod, uses[uid]) if uid in uses else None
                if eviction is not None:
                    evicted.append(self._evict(pod, eviction))
        return evicted

    async def _evict_one(self, threshold: Threshold, seen: Mapping[Signal, Observation]) -> Sequence[PodUID]:
        active = list(self._deps.workers.active())
        if all(is_critical(pod) for pod in active):
            fields = {"resource": RESOURCE_OF[threshold.signal], "pods": len(active)}
            _log.error("pressure: threshold met, but all pods are critical; nothing to evict", extra=fields)
            return ()
        uses = await self._uses()
        for each in self._state.met:
            self._deps.telemetry.metrics.eviction_decided(
                each.signal, self._deps.telemetry.clock.monotonic() - self._read_at
            )
        for pod in ranked(active, uses, RESOURCE_OF[threshold.signal]):
            if not is_critical(pod):
                text = message(pod, uses.get(ref_of(pod).uid), threshold, seen.get(threshold.signal))
                return [self._evict(pod, Eviction(text, threshold.signal, self._grace(pod, threshold)))]
        return ()

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
        self._deps.telemetry.events.event(ref, WARNING, Reason.EVICTED, eviction.message)
        self._deps.telemetry.metrics.evicted(eviction.signal)
        self._deps.workers.fail(ref.uid, Reason.EVICTED, eviction.message, eviction.grace)
        return ref.uid

    async def _uses(self) -> dict[PodUID, PodUse]:
        found: dict[PodUID, PodUse] = {}
        for stats in (await self._deps.usage()).pods:
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
    containers = {}
    for each in stats.containers:
        parts = [part.used_bytes for part in (each.rootfs, each.logs) if part is not None]
        known = [part for part in parts if part is not None]
        containers[each.name] = ContainerUse(
            memory=each.memory.working_set_bytes if each.memory else None, disk=sum(known) if known else None
        )
    storage = stats.ephemeral_storage
    return PodUse(
        memory=(stats.memory.working_set_bytes if stats.memory else None) or 0,
        disk=(storage.used_bytes if storage else None) or 0,
        inodes=(storage.inodes_used if storage else None) or 0,
        processes=(stats.process_stats.process_count if stats.process_stats else None) or 0,
        containers=containers,
        volumes={volume.name: volume.used_bytes for volume in stats.volume if volume.used_bytes is not None},
    )
