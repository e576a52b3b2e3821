"""Has drivers grow file systems and devices on the node when the storage behind a claim has grown.

Looked at when a volume is set up and then once a minute at most, with the pod's sync: a node may not follow claims.
"""

import logging
from typing import Final, Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.volumes import decide_growth
from pykubelet.kubelet.actuate.volumes.measure import Measure
from pykubelet.kubelet.actuate.volumes.ports import ClaimReader
from pykubelet.kubelet.actuate.volumes.source import CSI, Source
from pykubelet.kubelet.types.events import NORMAL, WARNING, EventRecorder, Reason
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import PersistentVolumeClaim, Pod
from pykubelet.models.quantity import to_value
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
_EVERY: Final[Seconds] = 60.0
_UNMEASURED: Final = Measure()


class Grower(Protocol):
    """Has a driver grow a volume (`CsiVolumes`)."""

    async def expand(self, pod: Pod, source: Source, size: Bytes) -> None:
        """Grow a volume of a pod to that size. Raises base errors."""

    def is_infeasible(self, error: PykubeletError) -> bool:
        """Whether trying again is of no use."""


class Growth:
    """The volumes of all pods."""

    def __init__(
        self, claims: ClaimReader, csi: Grower, events: EventRecorder, clock: Clock, measure: Measure = _UNMEASURED
    ) -> None:
        self._claims = claims
        self._csi = csi
        self._events = events
        self._clock = clock
        self._measure = measure
        self._looked: dict[PodUID, dict[str, Seconds]] = {}

    def forget(self, uid: PodUID) -> None:
        """The pod is gone. Repeatable."""
        self._looked.pop(uid, None)

    async def look(self, pod: Pod, name: str, source: Source) -> None:
        """Grow a volume that is set up if that is due. What goes wrong is told by events and in the claim."""
        if source.kind != CSI or not source.claim or source.read_only:
            return
        now = self._clock.monotonic()
        looked = self._looked.setdefault(ref_of(pod).uid, {})
        if now - looked.get(name, -_EVERY) < _EVERY:
            return
        looked[name] = now
        try:
            claim = await self._claims.claim(*source.claim.split("/"))
            if decide_growth.is_wanted(claim):
                await self._grow(pod, source, claim)
        except PykubeletError as error:
            told = {"pod": str(ref_of(pod)), "claim": source.claim, "error": str(error)}
            _log.warning("a volume has not grown, trying again", extra=told)

    async def _grow(self, pod: Pod, source: Source, claim: PersistentVolumeClaim) -> None:
        pv = await self._claims.volume(source.name)
        size = pv.spec.capacity[decide_growth.STORAGE]
        patch = decide_growth.begun(claim)
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
            await self._claims.patch_claim(claim, decide_growth.failed(claim, str(error), now, infeasible=infeasible))
            return
        await self._claims.patch_claim(claim, decide_growth.done(claim, size))
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{source.name}"'
        self._events.event(ref_of(pod), NORMAL, Reason.FILE_SYSTEM_RESIZE_SUCCESS, text)
