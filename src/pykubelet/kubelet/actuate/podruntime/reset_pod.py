"""In-place pod restart (KEP-5532): removes all containers of a pod, so that they start again in the same sandbox."""

from collections.abc import Sequence

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.podruntime.garbage_collection import Collector
from pykubelet.kubelet.actuate.podruntime.kill_pod import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import CrashLoop
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill, ContainerReset, KillReason
from pykubelet.kubelet.actuate.podruntime.sync_report import SyncReport
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Pod


class PodResetter:
    """Carries out ``PodActions.reset``. It may be interrupted: the next sync computes the actions again."""

    def __init__(self, *, killer: Killer, collector: Collector, crashes: CrashLoop, clock: Clock) -> None:
        self._killer = killer
        self._collector = collector
        self._crashes = crashes
        self._clock = clock

    async def reset(
        self, pod: Pod, status: PodRuntimeStatus, resets: Sequence[ContainerReset], report: SyncReport
    ) -> None:
        """Kill and remove the containers in this order; the containers that triggered the restart come last."""
        ref = ref_of(pod)
        if self._is_backing_off(pod, status, resets[-1].name, report):
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
            # Logs are kept: the restart count is derived from them.
            await self._collector.remove_attempts(ref, [by_id[reset.id]], with_logs=False)
            report.changed = True

    def _is_backing_off(self, pod: Pod, status: PodRuntimeStatus, name: str, report: SyncReport) -> bool:
        """Whether the container that triggered the restart is in back-off, as for a restart of that container alone."""
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
