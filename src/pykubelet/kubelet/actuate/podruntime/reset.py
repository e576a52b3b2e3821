"""Restarts a whole pod in place: all its containers are forgotten, and start anew in its sandbox (KEP-5532)."""

from collections.abc import Sequence

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.podruntime.crashloop import CrashLoop
from pykubelet.kubelet.actuate.podruntime.gc import Collector
from pykubelet.kubelet.actuate.podruntime.kill import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.sync_report import SyncReport
from pykubelet.kubelet.actuate.podruntime.types import ContainerKill, ContainerReset, KillReason
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Pod


class PodResetter:
    """Does what `compute_pod_actions` has decided; may be broken off, and is decided anew in the next sync."""

    def __init__(self, killer: Killer, collector: Collector, crashes: CrashLoop, clock: Clock) -> None:
        self._killer = killer
        self._collector = collector
        self._crashes = crashes
        self._clock = clock

    async def reset(
        self, pod: Pod, status: PodRuntimeStatus, resets: Sequence[ContainerReset], report: SyncReport
    ) -> None:
        """Kill and forget the containers in that order; those that caused it are the last."""
        ref = ref_of(pod)
        if self._waits(pod, status, resets[-1].name, report):
            return
        request = KillRequest(ref, pod, grace=0)
        by_id = {c.id: c for c in status.containers}
        for reset in resets:
            if reset.running:
                kill = ContainerKill(reset.id, reset.name, reason=KillReason.RESTART_ALL_CONTAINERS)
                failures = await self._killer.kill(request, [kill])
                report.failures += failures
                if failures:
                    return
            # Logs stay: the restart count follows from them.
            await self._collector.remove_attempts(ref, [by_id[reset.id]], with_logs=False)
            report.changed = True

    def _waits(self, pod: Pod, status: PodRuntimeStatus, name: str, report: SyncReport) -> bool:
        """Whether the container that wants the pod reset has to wait, as for a restart of itself alone."""
        found = find_container(pod, name)
        if found is None:
            return False
        now = self._clock.monotonic()
        wait = self._crashes.wait(status, found[1], now)
        if wait is None:
            self._crashes.starting(status, found[1], now)
            return False
        report.wake(wait.until)
        return True
