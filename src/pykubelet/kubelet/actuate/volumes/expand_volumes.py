"""Volume expansion on the node (KEP-1790): has CSI drivers expand volumes whose claim has been expanded.

Claims are read when a volume is set up, and then in a sync of the pod at most once a minute: nodes have no permission
to watch claims.
"""

import logging
import math
from typing import Final, Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.volumes.plan import expansion as expansion_rules
from pykubelet.kubelet.actuate.volumes.volume_interfaces import ClaimReader
from pykubelet.kubelet.actuate.volumes.volume_metrics import Measure
from pykubelet.kubelet.actuate.volumes.volume_source import CSI, Source
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, EventRecorder, Reason
from pykubelet.models.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from pykubelet.models.quantity import to_value
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
_EVERY: Final[Seconds] = 60.0
_UNMEASURED: Final = Measure()


class Expander(Protocol):
    """Has a CSI driver expand a volume (`CsiVolumes`)."""

    async def expand(self, pod: Pod, source: Source, size: Bytes) -> None:
        """Expand a volume of a pod to ``size`` bytes. Raises base errors."""

    def is_infeasible(self, error: PykubeletError) -> bool:
        """Whether a retry is useless."""


class VolumeExpansion:
    """Expands the volumes of all pods."""

    def __init__(
        self, *, claims: ClaimReader, csi: Expander, events: EventRecorder, clock: Clock, measure: Measure = _UNMEASURED
    ) -> None:
        self._claims = claims
        self._csi = csi
        self._events = events
        self._clock = clock
        self._measure = measure
        self._checked: dict[PodUID, dict[str, Seconds]] = {}

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed. Repeatable."""
        self._checked.pop(uid, None)

    def is_due(self, pod: Pod, name: str, source: Source) -> bool:
        """Whether the volume's claim is to be read again."""
        if source.kind != CSI or not source.claim:
            return False
        checked = self._checked.get(ref_of(pod).uid, {}).get(name, -math.inf)
        return self._clock.monotonic() - checked >= (math.inf if source.read_only else _EVERY)

    async def expand_if_due(self, pod: Pod, name: str, source: Source) -> None:
        """Expand a volume if its claim requires it. Failures are reported by events and in the claim's status."""
        if not self.is_due(pod, name, source):
            return
        self._checked.setdefault(ref_of(pod).uid, {})[name] = self._clock.monotonic()
        try:
            claim = await self._claims.claim(*source.claim.split("/"))
            if source.read_only:
                await self._report_read_only(pod, source, claim)
            elif expansion_rules.is_wanted(claim):
                await self._expand(pod, source, claim, await self._claims.volume(source.name))
            elif expansion_rules.is_legacy(claim):
                pv = await self._claims.volume(source.name)
                if expansion_rules.is_wanted_by_size(claim, pv):
                    await self._expand(pod, source, claim, pv)
        except PykubeletError as error:
            extra = {"pod": str(ref_of(pod)), "claim": source.claim, "error": str(error)}
            _log.warning("volume not expanded: retrying", extra=extra)

    async def _report_read_only(self, pod: Pod, source: Source, claim: PersistentVolumeClaim) -> None:
        """Send an event if the claim's storage has grown: a file system that is mounted read-only stays as it is."""
        if expansion_rules.is_wanted(claim) or (
            expansion_rules.is_legacy(claim)
            and expansion_rules.is_wanted_by_size(claim, await self._claims.volume(source.name))
        ):
            text = f'MountVolume.NodeExpandVolume failed for volume "{source.name}" requested read-only file system'
            self._events.event(ref_of(pod), WARNING, Reason.FILE_SYSTEM_RESIZE_FAILED, text)

    async def _expand(self, pod: Pod, source: Source, claim: PersistentVolumeClaim, pv: PersistentVolume) -> None:
        size = pv.spec.capacity[expansion_rules.STORAGE]
        patch = expansion_rules.begun(claim)
        if patch is not None:
            claim = await self._claims.patch_claim(claim, patch)
        try:
            with self._measure.resizing(source):
                await self._csi.expand(pod, source, Bytes(to_value(size)))
        except PykubeletError as error:
            infeasible = self._csi.is_infeasible(error)
            now = time_from_unix(self._clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
            text = f'MountVolume.NodeExpandVolume failed for volume "{source.name}" : {error}'
            self._events.event(ref_of(pod), WARNING, Reason.VOLUME_RESIZE_FAILED, text)
            if expansion_rules.is_legacy(claim):
                return
            await self._claims.patch_claim(claim, expansion_rules.failed(claim, str(error), now, infeasible=infeasible))
            return
        await self._claims.patch_claim(claim, expansion_rules.done(claim, size))
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{source.name}"'
        self._events.event(ref_of(pod), NORMAL, Reason.FILE_SYSTEM_RESIZE_SUCCESS, text)
