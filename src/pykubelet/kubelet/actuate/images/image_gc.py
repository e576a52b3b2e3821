"""Image garbage collection: removes unused images every five minutes, and on request of eviction."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Conflict, Invalid, PykubeletError, Transient
from pykubelet.base.files.documents import read_json
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.images.plan import image_gc
from pykubelet.kubelet.actuate.images.plan.image_gc import ImageDiskUse, ImageGcPolicy, ImageRecord
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.linux.filesystems import fsusage
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

GC_SECONDS = 300.0
SPACE = "space"
AGE = "age"


class Images(Protocol):
    """Calls of CRI's ImageService."""

    async def list_images(self, filter: pb.ImageFilter | None = None) -> list[pb.Image]:
        """List all images."""

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """Return an image; None if it is not present."""

    async def remove_image(self, image: pb.ImageSpec) -> None:
        """Remove an image; succeeds if it does not exist."""

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        """File systems of images."""


class Users(Protocol):
    """Calls of CRI's RuntimeService, to find images in use."""

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        """List all containers, also exited ones."""

    async def status(self, *, verbose: bool = False) -> pb.StatusResponse:
        """Status with the runtime's configuration, which has the sandbox image."""


class PullRecords(Protocol):
    """Records of pulled images (``pulled_images.py``)."""

    async def prune(self, images: Collection[pb.Image], listed_at: Seconds) -> None:
        """Drop the records of all images but these, which the runtime had at that Unix time. Never raises."""


class GcMetrics(Protocol):
    """Metrics of image garbage collection, as the Go kubelet has them."""

    def image_collected(self, reason: str) -> None:
        """Count a removed image by its reason, ``space`` or ``age``."""

    def runtime_trash(self, size: Bytes) -> None:
        """Set the bytes of removed containers and images that the runtime server has not deleted yet."""


class GcDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of :class:`ImageGc`."""

    images: Images
    users: Users
    telemetry: Telemetry[GcMetrics]
    disk: Callable[[str], ImageDiskUse]
    """Use of the file system with that path; may block."""
    pods: Callable[[], Iterable[Pod]] = tuple
    """Returns the pods of the node, whose image volumes are in use."""
    pulled: PullRecords | None = None
    """None: no records."""


class ImageGc:
    """Image garbage collector. A failure is reported by an event and retried in the next round."""

    def __init__(self, deps: GcDeps, policy: ImageGcPolicy) -> None:
        self._deps = deps
        self._policy = policy
        self._records: dict[str, ImageRecord] = {}
        self._listed: tuple[list[pb.Image], Seconds] = ([], 0.0)
        """The runtime's images at the last round, and when they were listed (Unix time)."""
        self._started = deps.telemetry.clock.monotonic()
        self._first_round: Seconds | None = None
        """Time at which the images were listed first."""
        self._round_lock = asyncio.Lock()
        self._failures = 0
        self._rounds = Guard("image-gc.rounds", deps.telemetry.clock.monotonic)
        self._images = Guard("image-gc.images", deps.telemetry.clock.monotonic)

    def reconfigure(self, policy: ImageGcPolicy) -> None:
        """Collect by this policy from the next round on."""
        self._policy = policy

    async def run(self) -> None:
        """Collect until cancelled. The first round runs at once, so that the age of images is known from the start."""
        while True:
            with self._rounds.item("collect") as attempt:
                await self.collect()
            self._failures = self._failures + 1 if attempt.error is not None else 0
            if self._failures > 1:  # the first time the runtime may just be starting
                self._deps.telemetry.events.event(None, WARNING, Reason.IMAGE_GC_FAILED, str(attempt.error))
            await self._deps.telemetry.clock.sleep(GC_SECONDS)

    async def collect(self) -> Bytes:
        """Run one round; return the bytes freed. Raises Transient if that was not enough."""
        async with self._round_lock:
            now = self._deps.telemetry.clock.monotonic()
            free = await self._update_records(now)
            try:
                return await self._remove_needed(free, now)
            finally:
                await self._prune()

    async def _remove_needed(self, free: list[ImageRecord], now: Seconds) -> Bytes:
        """Remove old images, and others while the disk is too full. Raises Transient if that was not enough."""
        old = image_gc.too_old(free, self._policy, self._started, now)
        freed = await self._remove(old, AGE)
        if self._policy.high_threshold >= 100:
            return freed
        disk = await self._disk()
        need = image_gc.bytes_to_free(disk, self._policy)
        if need:
            _log.info("image file system above the high threshold", extra={"percent": disk.percent, "to_free": need})
            left = [record for record in free if record not in old]
            got = await self._remove(image_gc.for_space(left, need, self._policy, now), SPACE)
            if got < need:
                message = image_gc.too_little_freed(disk, got)
                self._deps.telemetry.events.event(None, WARNING, Reason.FREE_DISK_SPACE_FAILED, message)
                raise Transient(message)
            freed = Bytes(freed + got)
        return freed

    async def _prune(self) -> None:
        """Drop the records of pulled images that the runtime does not have any more."""
        if self._deps.pulled is not None:
            listed, listed_at = self._listed
            await self._deps.pulled.prune([image for image in listed if image.id in self._records], listed_at)

    async def remove_unused(self) -> Bytes:
        """Remove all removable images but very new ones (disk pressure); return the bytes freed."""
        async with self._round_lock:
            now = self._deps.telemetry.clock.monotonic()
            free = await self._update_records(now)
            assert self._first_round is not None, "records have been updated"
            freed = await self._remove(image_gc.unneeded(free, self._policy, self._first_round, now), SPACE)
            await self._prune()
            return freed

    async def _update_records(self, now: Seconds) -> list[ImageRecord]:
        """Update the records; return the images that may be removed, in order."""
        listed_at = self._deps.telemetry.clock.now()
        listed = await self._deps.images.list_images()
        self._listed = (listed, listed_at)
        used = await self._used(listed)
        images = [ImageRecord(each.id, Bytes(each.size), each.pinned, now) for each in listed]
        self._first_round = now if self._first_round is None else self._first_round
        self._records = image_gc.seen(self._records, images, used, now)
        return image_gc.removable(self._records, used)

    async def _used(self, listed: Iterable[pb.Image]) -> set[str]:
        """Ids of images in use, by containers or as volumes. Containers refer to images by id, digest or tag."""
        names = await self._volumes(listed)
        for row in await self._deps.users.list_containers():
            names |= {row.image_ref, row.image_id, row.image.image}
        status = await self._deps.users.status(verbose=True)
        names.add(_sandbox_image(status))
        if "trash" in status.info:  # only this project's own server has it
            self._deps.telemetry.metrics.runtime_trash(_trash_bytes(status))
        return {
            image.id
            for image in listed
            if image.id in names or not names.isdisjoint((*image.repo_tags, *image.repo_digests))
        }

    async def _volumes(self, listed: Iterable[pb.Image]) -> set[str]:
        """Ids of the images of image volumes (KEP-4639), as far as they are present."""
        references = {v.image.reference for pod in self._deps.pods() for v in pod.spec.volumes if v.image is not None}
        found: set[str] = set()
        for each in sorted(references):
            try:
                image = await self._deps.images.image_status(pb.ImageSpec(image=each))
                found |= {image.id} if image is not None else set()
            except PykubeletError as error:
                # Of one pod: it is empty, or the beginning of several ids. It must not keep all images on the disk.
                _log.debug("image volume unknown to the runtime", extra={"image": each, "error": str(error)})
                found |= {i.id for i in listed if image_gc.may_mean(each, i.id, (*i.repo_tags, *i.repo_digests))}
        return found

    async def _disk(self) -> ImageDiskUse:
        info = await self._deps.images.image_fs_info()
        for filesystem in info.image_filesystems:
            disk = await blocking.call("images", self._deps.disk, filesystem.fs_id.mountpoint)
            if disk.capacity:
                return disk
        message = "invalid capacity 0 on image filesystem"
        self._deps.telemetry.events.event(None, WARNING, Reason.INVALID_DISK_CAPACITY, message)
        raise Transient(message)

    async def _remove(self, records: Iterable[ImageRecord], reason: str) -> Bytes:
        freed = 0
        for record in records:
            with self._images.item(record.id), suppress(Conflict):  # a new container uses it
                await self._deps.images.remove_image(pb.ImageSpec(image=record.id))
                _log.info("image removed", extra={"image": record.id, "bytes": record.size, "reason": reason})
                self._records.pop(record.id, None)
                self._deps.telemetry.metrics.image_collected(reason)
                freed += record.size
        return Bytes(freed)


def disk_use(path: str) -> ImageDiskUse:
    """Capacity and available bytes of the file system of a path. Blocks."""
    usage = fsusage.filesystem(path)
    return ImageDiskUse(usage.capacity, usage.available)


def _sandbox_image(status: pb.StatusResponse) -> str:
    """Image of sandboxes, which is in no container list; containerd before 2.0 does not pin it."""
    return str(_info(status, "config").get("sandboxImage", ""))


def _trash_bytes(status: pb.StatusResponse) -> Bytes:
    found = _info(status, "trash").get("bytes", 0)
    return Bytes(found if isinstance(found, int) else 0)


def _info(status: pb.StatusResponse, name: str) -> Mapping[str, object]:
    """One of the JSON objects in the runtime's verbose status; empty if it is missing or of another kind."""
    try:
        found = read_json(status.info.get(name, "{}"))
    except Invalid:
        return {}
    return found if isinstance(found, dict) else {}
