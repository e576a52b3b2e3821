"""In-place pod restart (KEP-5532): removes all containers of a pod, so that they start again in the same sandbox."""

from collections.abc import Sequence

from pykubelet.kubelet.actuate.podruntime.garbage_collection import Collector
from pykubelet.kubelet.actuate.podruntime.kill_pod import Killer, KillRequest
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill, ContainerReset, KillReason
from pykubelet.kubelet.actuate.podruntime.sync_report import SyncReport
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Pod


class PodResetter:
    """Carries out ``PodActions.reset``. It may be interrupted: the next sync computes the actions again."""

    def __init__(self, *, killer: Killer, collector: Collector) -> None:
        self._killer = killer
        self._collector = collector

    async def reset(
        self, pod: Pod, status: PodRuntimeStatus, resets: Sequence[ContainerReset], report: SyncReport
    ) -> None:
        """Kill and remove the containers in this order; the containers that triggered the restart come last.

        There is no back-off, as upstream: a restart of all containers is asked for by a rule, and is no crash.
        """
        ref = ref_of(pod)
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
