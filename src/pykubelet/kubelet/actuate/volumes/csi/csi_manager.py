"""Stages and publishes CSI volumes for pods, and unpublishes and unstages them, also those of an earlier agent.

The volume manager calls it for the volumes of pods; `run` unstages volumes that no pod uses any more. A driver that
hangs delays only the pods that use its volumes.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import Context
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Conflict, PykubeletError, Transient, Unsupported
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.volumes.attachment import AttachPatience
from pykubelet.kubelet.actuate.volumes.csi.csi_errors import CsiFailed, DriverMissing
from pykubelet.kubelet.actuate.volumes.csi.csi_layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.csi_locks import VolumeLocks
from pykubelet.kubelet.actuate.volumes.csi.csi_mounter import CsiMounter, SetUpInputs
from pykubelet.kubelet.actuate.volumes.csi.csi_types import (
    CsiConfig,
    CsiEvents,
    CsiVolume,
    PublishedVolume,
    StagedVolume,
    VolumeRef,
)
from pykubelet.kubelet.actuate.volumes.csi.driver_registry import DriverRegistry
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.kubelet.actuate.volumes.volume_interfaces import CsiObjects
from pykubelet.kubelet.actuate.volumes.volume_metrics import csi_plugin, storage_work
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs, SlowChanges
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.work_meter import StoragePlugin, WorkMeter
from pykubelet.kubelet.types.storage import AttachLimitExceeded, VolumesInUse, VolumeSizes
from pykubelet.models.core_v1 import Pod
from pykubelet.models.storage_v1 import CSIDriver

_log = logging.getLogger(__name__)

_BRIEFLY: Final[Seconds] = 2.0
"""Longest wait of a pod that ends for its volumes to be unstaged: nearly always to the end."""
_ONE_POD: Final = "ReadWriteOncePod"
_RETRY: Final[Seconds] = 1.0
_MAX_RETRY: Final[Seconds] = 122.0


class CsiDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of :class:`CsiVolumes`."""

    layout: CsiLayout
    drivers: DriverRegistry
    objects: CsiObjects
    blocking: BlockingJobs
    node: str
    telemetry: Telemetry[WorkMeter]
    events: CsiEvents
    """Those of drivers, and of the changes that :class:`CsiVolumes` reports."""


class _VolumeState(Struct):
    """State of one volume of one pod in this process."""

    volume: CsiVolume
    since: Seconds
    """Monotonic time of the first attempt to set it up."""
    attach: bool = False
    republish: bool = False
    context: dict[str, str] = field(default_factory=dict)
    """Attachment metadata of the controller."""
    published_at: Seconds | None = None
    """Monotonic time of the last publication; None: not published by this process."""


class CsiVolumes:
    """CSI volumes of the node. Calls for one volume of a pod must not overlap; others may."""

    def __init__(self, deps: CsiDeps, config: CsiConfig | None = None) -> None:
        self._deps = deps
        self._config = config or CsiConfig()
        self._states: dict[tuple[PodUID, str], _VolumeState] = {}
        self._locks = VolumeLocks()
        self._disk_refs: set[VolumeRef] | None = None
        """Volumes staged on this node, and those published by an earlier agent; None: the records are not read yet."""
        self._waiting: dict[str, set[PodUID]] = {}
        """Pods that wait for a driver, by its name."""
        self._sweep = Wakeup(deps.telemetry.clock)
        self._releases = Guard("csi.releases", deps.telemetry.clock.monotonic)
        self._unstaging: set[asyncio.Task[None]] = set()
        """The ends of volumes that no pod uses, which outlive the pods if a driver hangs."""
        self._mounter = CsiMounter(
            layout=deps.layout,
            objects=deps.objects,
            blocking=deps.blocking,
            node=deps.node,
            slow_changes=SlowChanges(
                events=deps.telemetry.events, clock=deps.telemetry.clock, stall=deps.blocking.deadline
            ),
        )
        deps.events.registered.subscribe(self.registered)

    # -- for the volume manager

    def path(self, uid: PodUID, source: Source) -> Path:
        """Path of a pod's volume: what its containers mount, or use as a device."""
        return self._deps.layout.path(uid, source.name, block=source.block)

    def is_due(self, pod: Pod, source: Source) -> bool:
        """Whether a volume has to be published or republished."""
        held = self._states.get((ref_of(pod).uid, source.name))
        if held is None or held.published_at is None:
            return True
        age = self._deps.telemetry.clock.monotonic() - held.published_at
        return held.republish and age >= self._config.republish_every

    async def set_up(self, pod: Pod, source: Source, patience: AttachPatience | None = None) -> None:
        """Wait for attachment, stage and publish. Repeatable. Raises base errors with messages of the Go kubelet.

        AttachLimitExceeded: the node can have no more volumes of the driver; the pod has to run elsewhere.
        """
        uid = ref_of(pod).uid
        volume = csi_rules.volume_of(pod, source)
        try:
            client = self._deps.drivers.client(volume.ref.driver)
        except DriverMissing:
            self._waiting.setdefault(volume.ref.driver, set()).add(uid)
            raise
        driver = await self._deps.objects.driver(volume.ref.driver)
        csi_rules.check_lifecycle(volume, driver)
        await self._check_single_pod(uid, volume)
        now = self._deps.telemetry.clock.monotonic()
        held = self._states.setdefault((uid, volume.name), _VolumeState(volume, now))
        held.volume = volume
        held.republish = driver is not None and bool(driver.spec.requires_republish)
        again = held.published_at is not None
        if not volume.ephemeral and not again:
            held.attach = csi_rules.needs_attach(driver)
            if held.attach and not self._config.wait_attach:
                raise Unsupported(
                    f"volumes of driver {volume.ref.driver} have to be attached, which this agent leaves to the "
                    "controller: set enableControllerAttachDetach: true"
                )
            if held.attach:
                self._deps.events.in_use_changed()
                held.context = await self._attached(held, driver, patience or AttachPatience())
        setting = SetUpInputs(pod, volume, driver, client, held.context)
        if volume.ephemeral:
            await self._mounter.publish(setting, "", again=again)
        else:
            async with self._locks.hold(volume.ref):
                await self._mounter.publish(setting, await self._stage(setting, again=again), again=again)
        held.published_at = self._deps.telemetry.clock.monotonic()

    def has_volumes(self, uid: PodUID) -> bool:
        """Whether setting up a volume of the pod has begun, even if nothing is on the disk yet."""
        return any(owner == uid for owner, _ in self._states) or any(uid in uids for uids in self._waiting.values())

    async def tear_down(self, uid: PodUID) -> None:
        """Unpublish all volumes of a pod, and unstage those that no other pod uses. Repeatable.

        Works from the disk, so it also tears down pods of an earlier agent. Raises Transient with what remains; the
        other volumes can be detached from the node meanwhile. A driver that hangs while it unstages does not keep the
        pod, of which nothing is left then, as in the Go kubelet.
        """
        found = await self._mounter.block(f"pod/{uid}/csi", lambda: self._deps.layout.published(uid))
        names = {each.record.spec_name for each in found}
        others = [name for owner, name in self._states if owner == uid and name not in names]
        texts = await asyncio.gather(
            *(self._undo(each) for each in found), *(self._drop(uid, name, set()) for name in others)
        )
        if any(texts):
            raise Transient("; ".join(text for text in texts if text))
        for uids in self._waiting.values():
            uids.discard(uid)

    async def sizes(self, pod: Pod, source: Source) -> VolumeSizes | None:
        """Capacity and usage of a volume; None if the driver does not report them. Raises base errors."""
        ref = csi_rules.volume_of(pod, source).ref
        path = self.path(ref_of(pod).uid, source)
        return await self._deps.drivers.client(ref.driver).sizes(ref, str(path))

    async def expand(self, pod: Pod, source: Source, size: Bytes) -> None:
        """Have the driver expand a volume of a pod to ``size`` bytes. Raises base errors."""
        volume = csi_rules.volume_of(pod, source)
        client = self._deps.drivers.client(volume.ref.driver)
        if not (await client.capabilities()).expand:
            raise Unsupported(f"NodeExpand is not supported by the CSI driver {volume.ref.driver}")
        secrets = await self._mounter.secret(volume.expand_secret)
        paths = str(self.path(ref_of(pod).uid, source)), str(self._deps.layout.stage(volume))
        async with self._locks.hold(volume.ref):
            await client.expand(volume, paths, size, secrets)

    def is_infeasible(self, error: PykubeletError) -> bool:
        """Whether retrying an expansion is useless."""
        return isinstance(error, CsiFailed) and error.is_infeasible

    def in_use(self) -> VolumesInUse:
        """Volumes that must not be detached from the node, by their names in its status."""
        if self._disk_refs is None:
            self._disk_refs = self._read_disk()
        # Of a volume that a pod uses, the driver says whether it was attached; of the others that is not known.
        held = {each.volume.ref for each in self._states.values()}
        attach = {each.volume.ref for each in self._states.values() if each.attach}
        names = sorted(ref.unique_name for ref in attach | ((self._disk_refs or set()) - held))
        return VolumesInUse(tuple(names), is_complete=self._disk_refs is not None)

    def _read_disk(self) -> set[VolumeRef] | None:
        """Read volumes on disk, at the first use: those of an earlier agent are in use from the first report on.

        What is being set up may have no record yet.
        """
        layout, held = self._deps.layout, self._states.values()
        begun = {each.volume.ref for each in held if not each.volume.ephemeral}
        try:
            return {each.ref for each in layout.staged()} | layout.used() | begun
        except (OSError, Transient) as error:
            _log.error("volumes of an earlier agent not read: retrying", extra={"error": str(error)})
            return None

    # -- core tasks

    def registered(self, driver: str) -> None:
        """Sync the pods that wait for a driver that has registered, and unstage its unused volumes."""
        self._sweep.wake()
        if uids := self._waiting.pop(driver, None):
            self._deps.objects.touch(frozenset(uids))

    async def run(self) -> None:
        """Unstage volumes that no pod uses, at the start and when some remain; runs until cancelled."""
        clock = self._deps.telemetry.clock
        backoff, guard = Backoff(_RETRY, _MAX_RETRY), Guard("csi.sweep", clock.monotonic)
        while True:
            self._sweep.clear()
            left = ""
            with guard.item("staged volumes") as attempt:
                left = await self._sweep_once()
            left = left or str(attempt.error or "")
            if not left:
                backoff.reset("")
                await self._sweep.sleep(None)
                continue
            _log.warning("unused volumes not unstaged: retrying", extra={"error": left})
            await self._sweep.sleep(backoff.next("", clock.monotonic()))

    async def _sweep_once(self) -> str:
        """Unstage volumes that no pod uses, by the records on disk; return the problems as text."""
        layout = self._deps.layout
        await self._mounter.block("csi", layout.prepare)
        staged = {each.ref for each in await self._mounter.block("csi", layout.staged)}
        used = await self._mounter.block("csi", layout.used)
        texts = await asyncio.gather(*map(self._release, sorted(staged - used)))
        return "; ".join(text for text in texts if text is not None)

    # -- set up

    async def _check_single_pod(self, uid: PodUID, volume: CsiVolume) -> None:
        """Raise Conflict if another pod uses a volume with the access mode ReadWriteOncePod (KEP-2485)."""
        if _ONE_POD not in volume.access_modes:
            return
        users = await self._mounter.block(str(volume.ref), self._deps.layout.users)
        users |= {(held.volume.ref, owner) for (owner, _), held in self._states.items()}
        if any(ref == volume.ref and owner != uid for ref, owner in users):
            raise Conflict(f"volume uses the {_ONE_POD} access mode and is already in use by another pod")

    async def _attached(self, held: _VolumeState, driver: CSIDriver | None, patience: AttachPatience) -> dict[str, str]:
        ref = held.volume.ref
        attachment = csi_rules.attachment_name(ref, self._deps.node)
        try:
            with self._measured(ref, "verify_controller_attached_volume"):
                await self._deps.objects.wait_attached(ref.unique_name, attachment, patience.limit())
        except AttachLimitExceeded as error:
            waited = self._deps.telemetry.clock.monotonic() - held.since
            if waited < patience.full or not csi_rules.heeds_limit(driver):
                # Within that time another volume may be detached.
                raise Transient(str(error)) from error
            self._deps.events.limit_reached(ref.driver)
            raise
        return dict(await self._deps.objects.attachment_metadata(attachment))

    async def _stage(self, setting: SetUpInputs, *, again: bool) -> str:
        """Stage the volume; return its staging path, empty if the driver does not stage."""
        if not (await setting.client.capabilities()).stage:
            return ""
        if again:
            return str(self._deps.layout.stage(setting.volume))
        if self._disk_refs is not None:
            self._disk_refs.add(setting.volume.ref)
        return str(await self._mounter.stage(setting))

    # -- tear down

    async def _undo(self, published: PublishedVolume) -> str | None:
        """Unpublish a volume of a pod and forget it; return the problem, if any."""
        problem = await self._unpublish(published)
        if problem is None:
            record = published.record
            await self._drop(published.uid, record.spec_name, set() if record.ephemeral else {record.ref})
        return problem

    async def _drop(self, uid: PodUID, name: str, refs: set[VolumeRef]) -> None:
        """Forget a pod's volume that is not published, and unstage it if no other pod uses it."""
        held = self._states.pop((uid, name), None)
        if held is not None and not held.volume.ephemeral:
            refs = refs | {held.volume.ref}
        # A context of its own: it may outlive the sync of the pod, and its trace.
        task = asyncio.create_task(self._release_all(uid, refs), name=f"csi-unstage {uid}", context=Context())
        self._unstaging.add(task)
        task.add_done_callback(self._unstaging.discard)
        await asyncio.wait((task,), timeout=_BRIEFLY)

    async def _release_all(self, uid: PodUID, refs: Iterable[VolumeRef]) -> None:
        problems: list[str] = []
        with self._releases.item(uid) as attempt:
            problems = [text for ref in refs if (text := await self._release(ref)) is not None]
        if problems or attempt.error is not None:
            # The pod can be removed: unused volumes are unstaged as soon as the driver responds.
            text = "; ".join(problems) or str(attempt.error)
            _log.warning("volume not unstaged: retrying", extra={"uid": uid, "error": text})
            self._sweep.wake()
        self._deps.events.in_use_changed()

    async def _unpublish(self, published: PublishedVolume) -> str | None:
        """Unpublish a volume; return the problem, if any."""
        ref, layout = published.record.ref, self._deps.layout
        try:
            operation = "unmap_volume" if published.block else "volume_unmount"
            async with self._locks.hold(ref):
                with self._measured(ref, operation):
                    await self._deps.drivers.client(ref.driver).unpublish(ref, published.target)
                await self._mounter.block(str(ref), lambda: layout.forget_published(published))
        except PykubeletError as error:
            if isinstance(error, DriverMissing):
                self._waiting.setdefault(ref.driver, set()).add(published.uid)
            return f'UnmountVolume.TearDown failed for volume "{published.record.spec_name}" ({ref}): {error}'
        return None

    async def _release(self, ref: VolumeRef) -> str | None:
        """Unstage a volume, or leave it to a pod that uses it; return the problem, if any."""
        try:
            async with self._locks.hold(ref):
                if self._wanted(ref) or ref in await self._mounter.block(str(ref), self._deps.layout.used):
                    return None
                for staged in await self._mounter.block(str(ref), self._deps.layout.staged):
                    if staged.ref == ref:
                        await self._unstage(staged)
        except PykubeletError as error:
            return f"UnmountDevice failed for volume {ref}: {error}"
        if self._disk_refs is not None:
            self._disk_refs.discard(ref)
        self._deps.events.in_use_changed()
        return None

    async def _unstage(self, staged: StagedVolume) -> None:
        with self._measured(staged.ref, "unmap_device" if staged.block_name else "unmount_device"):
            client = self._deps.drivers.client(staged.ref.driver)
            if (await client.capabilities()).stage:
                await client.unstage(staged.ref, staged.path)
        await self._mounter.block(str(staged.ref), lambda: self._deps.layout.forget_staged(staged))

    def _measured(self, ref: VolumeRef, operation: str) -> AbstractContextManager[None]:
        return storage_work(
            self._deps.telemetry.metrics, self._deps.telemetry.clock, StoragePlugin(csi_plugin(ref.driver)), operation
        )

    def _wanted(self, ref: VolumeRef) -> bool:
        return any(held.volume.ref == ref for held in self._states.values())
