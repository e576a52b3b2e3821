"""Keeps the CSI volumes of pods up to date that are set up: republishes and expands them beside the pods' syncs.

A driver or an API server that hangs must not keep a pod from restarting its containers.
"""

import asyncio
from collections.abc import Mapping
from contextvars import Context
from typing import Final

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.tasks import cancel_all
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.expand_volumes import VolumeExpansion
from pykubelet.kubelet.actuate.volumes.mount.remote_volumes import RemoteVolumes
from pykubelet.kubelet.actuate.volumes.setup_jobs import not_set_up
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.models.core_v1 import Pod

_BRIEFLY: Final[Seconds] = 2.0
"""Longest wait of a sync for the round that it has begun: nearly always to its end."""


class VolumeUpkeep:
    """Runs one round at a time for each pod. ``expansion`` is None without an API server, which has the claims."""

    def __init__(
        self, *, remote: RemoteVolumes, expansion: VolumeExpansion | None, telemetry: Telemetry[WorkMeter]
    ) -> None:
        self._remote = remote
        self._expansion = expansion
        self._events = telemetry.events
        self._guard = Guard("volumes.upkeep", telemetry.clock.monotonic)
        self._rounds: dict[PodUID, asyncio.Task[None]] = {}

    async def keep(self, pod: Pod, sources: Mapping[str, Source]) -> None:
        """Begin a round for a pod's volumes, if one is due and none is running. Failures are reported by events."""
        uid = ref_of(pod).uid
        due = {name: source for name, source in sources.items() if self._is_due(pod, name, source)}
        if not due or uid in self._rounds or not self._guard.is_due(uid):
            return
        # A context of its own: the round is no part of the sync that begins it, nor of its trace.
        task = asyncio.create_task(self._round(pod, due), name=f"volume-upkeep {uid}", context=Context())
        self._rounds[uid] = task
        await asyncio.wait((task,), timeout=_BRIEFLY)

    async def end(self, uid: PodUID) -> None:
        """End the upkeep of a pod's volumes, before they are torn down. Repeatable."""
        if (task := self._rounds.pop(uid, None)) is not None:
            await cancel_all((task,))
        if self._expansion is not None:
            self._expansion.forget(uid)

    def _is_due(self, pod: Pod, name: str, source: Source) -> bool:
        expands = self._expansion is not None and self._expansion.is_due(pod, name, source)
        return expands or self._remote.is_due(pod, source)

    async def _round(self, pod: Pod, due: Mapping[str, Source]) -> None:
        ref = ref_of(pod)
        try:
            with self._guard.item(ref.uid):
                stale = {name: source for name, source in due.items() if self._remote.is_due(pod, source)}
                for name, error in (await self._remote.set_up(pod, stale)).items():
                    reason = Reason.FAILED_MAP_VOLUME if due[name].block else Reason.FAILED_MOUNT
                    self._events.event(ref, WARNING, reason, not_set_up(due[name], str(error)))
                if self._expansion is not None:
                    expand = self._expansion.expand_if_due
                    await asyncio.gather(*(expand(pod, name, source) for name, source in due.items()))
        finally:
            self._rounds.pop(ref.uid, None)
