"""Records of the images that this node has pulled, on disk: they decide which pods may use a present image (KEP-2535).

The image manager writes an intent before a pull and a record after it, and asks before a pod uses an image that is
present; image garbage collection drops the records of removed images. The files are those of the Go kubelet, below
``image_manager`` in the root directory, so that either can take over from the other.

A crash between intent and record leaves the intent: the image counts as pulled, and pods that want it are verified. A
damaged file is set aside and counts as a record without credentials.

An image that was there before the first pull by this node counts as preloaded until a pull succeeds or brings another
image: a pull that hangs, fails or is given up does not take it from the pods that use it.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from pykubelet.base.clock import utc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.files.atomic import remove_temporary_files, write_atomic
from pykubelet.base.files.state_files import ASIDE, read_state_file
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageFacts
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics
from pykubelet.kubelet.actuate.images.plan import pull_records as plan
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials
from pykubelet.kubelet.actuate.images.plan.pull_records import PullCheck, PullCredentials, PulledRecord, Verification
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_OWNER: Final = "image-records"
_MAX_FILE: Final = 1 << 20
_MAX_LEFT: Final = 1000
"""Intents of former agents that are kept."""


class PulledImages:
    """The records and intents, which only this object changes; in memory as well as on disk. For one thread."""

    def __init__(self, root: Path, *, verification: Verification, telemetry: Telemetry[ImageMetrics]) -> None:
        self._clock = telemetry.clock
        self._metrics = telemetry.metrics
        self._pulling = root / "image_manager" / "pulling"
        self._pulled = root / "image_manager" / "pulled"
        self._verification = verification
        self._changing = asyncio.Lock()
        self._loaded = False
        self._records: dict[str, PulledRecord] = {}
        """By the runtime's id of the image."""
        self._intents: dict[str, int] = {}
        """Intents: the number of pulls in progress by image."""
        self._open: set[str] = set()
        """Images with an intent of an earlier pull, of which no one knows whether it has succeeded."""
        self._preloaded: dict[str, str] = {}
        """Of images with an intent: the id of what was on the machine before that was not pulled by this node."""
        self._damaged: set[str] = set()
        """Names of the files that were set aside and have no new content yet."""

    def reconfigure(self, verification: Verification) -> None:
        """Verify pods by these rules from now on."""
        self._verification = verification

    async def begin(self, image: str, present: Callable[[], Awaitable[ImageFacts | None]] | None = None) -> None:
        """Record the intent to pull an image, as the pod names it. Raises Transient if it cannot be written.

        ``present`` returns facts about the image on the machine; without it, there is no such image.
        """
        asks = present is not None and image not in self._intents and self._verifies(image)
        facts = await present() if present is not None and asks else None
        async with self._changing:
            await self._load()
            if facts is not None and image not in self._intents and not self._is_known(image, facts.id):
                self._preloaded[image] = facts.id
            if not self._intents.get(image):
                await self._write(self._pulling / plan.file_name(image), plan.write_intent(image))
            self._intents[image] = self._intents.get(image, 0) + 1
            self._count()

    async def failed(self, image: str) -> None:
        """Drop the intent of a pull that failed, unless an earlier one may have succeeded. Never raises."""
        async with self._changing:
            if image in self._open:
                self.unknown(image)
            else:
                await self._end(image)

    async def succeeded(self, image: str, ref: str, used: RegistryCredentials | None) -> None:
        """Record that a pull with these credentials has succeeded. Never raises: if the record cannot be written, the
        intent stays, so that the image is still known as pulled."""
        async with self._changing:
            if await self._learn(image, ref, plan.credentials_of_pull(used), touch=True):
                self._open.discard(image)
                await self._end(image)
            else:
                self.unknown(image)

    async def must_pull(
        self, image: str, ref: str, credentials: Callable[[], Awaitable[Iterable[RegistryCredentials]]]
    ) -> bool:
        """Whether a pod has to pull an image that is present, to show that it may use it.

        ``credentials`` returns those of the pod, and is only called if the result depends on them; its errors are
        raised.
        """
        result = PullCheck.ERROR
        try:
            result = await self._check(image, ref, credentials)
        finally:
            self._metrics.pull_check(result.value)
        return result in (PullCheck.MUST_AUTHENTICATE, PullCheck.ERROR)

    async def prune(self, images: Collection[pb.Image], listed_at: Seconds) -> None:
        """Drop the records of all images but these, which the runtime had at that Unix time.

        Never raises. Intents of former agents become records if their image is present.
        """
        present = {image.id for image in images}
        async with self._changing:
            try:
                await self._load()
                await self._settle_intents(images)
                # The time in a record has no fraction of a second.
                old = [
                    ref
                    for ref, record in self._records.items()
                    if ref not in present and record.last_updated_time.timestamp() < listed_at - 1
                ]
                for ref in old:
                    await self._remove(self._pulled / plan.file_name(ref))
                    del self._records[ref]
            except PykubeletError as error:
                _log.warning("records of pulled images not cleaned up; retrying", extra={"error": str(error)})
            self._count()

    async def _check(
        self, image: str, ref: str, credentials: Callable[[], Awaitable[Iterable[RegistryCredentials]]]
    ) -> PullCheck:
        repository = plan.repository_of(image)
        if not self._verifies(image):
            return PullCheck.POLICY_ALLOWED  # without a look at the records
        try:
            async with self._changing:
                await self._load()
                await self._replace_damaged(image, ref)
        except PykubeletError as error:
            _log.error("records of pulled images not read", extra={"image": image, "error": str(error)})
            return PullCheck.ERROR
        record = self._records.get(ref)
        intended = image in self._intents and self._preloaded.get(image) != ref
        if not self._verification.requires(repository, record is not None or intended):
            return PullCheck.POLICY_ALLOWED
        known = plan.known_without_credentials(record, repository)
        if known is not None or record is None:
            return known or PullCheck.MUST_AUTHENTICATE
        result, learned = plan.check(record.credential_mapping[repository], await credentials())
        if learned is not None:
            async with self._changing:
                await self._learn(image, ref, learned)
        return result

    def _verifies(self, image: str) -> bool:
        """Whether pods are verified that use this image if the node has pulled it."""
        return self._verification.requires(plan.repository_of(image), True)

    def _is_known(self, image: str, ref: str) -> bool:
        """Whether there is a record of what is on the machine, perhaps a damaged one."""
        return ref in self._records or not self._damaged.isdisjoint((plan.file_name(image), plan.file_name(ref)))

    def unknown(self, image: str) -> None:
        """Note that it is not known whether a pull succeeds in the end: the intent stays."""
        self._intents[image] = max(0, self._intents.get(image, 0) - 1)
        self._open.add(image)

    async def _learn(self, image: str, ref: str, new: PullCredentials | None, *, touch: bool = False) -> bool:
        """Add credentials to an image's record; None: unknown ones. Returns whether it is on the disk.

        With ``touch``, the record gets the present time if there is nothing to add.
        """
        before = self._records.get(ref)
        mapping = dict(before.credential_mapping) if before is not None else {}
        if new is not None:
            mapping = plan.learned(mapping, plan.repository_of(image), new)
        if before is not None and mapping == before.credential_mapping and not touch:
            return True
        record = PulledRecord(last_updated_time=utc(self._clock.now()), image_ref=ref, credential_mapping=mapping)
        try:
            await self._write(self._pulled / plan.file_name(ref), plan.write_record(record))
        except PykubeletError as error:
            _log.error("record of a pulled image not written", extra={"image": image, "error": str(error)})
            return False
        self._records[ref] = record
        self._count()
        return True

    async def _end(self, image: str) -> None:
        """Note the end of a pull; the last one removes the intent."""
        left = self._intents.get(image, 0) - 1
        if left > 0:
            self._intents[image] = left
            return
        try:
            await self._remove(self._pulling / plan.file_name(image))
        except PykubeletError as error:
            _log.warning("intent to pull an image not removed", extra={"image": image, "error": str(error)})
            self._intents[image] = 0
            return
        self._intents.pop(image, None)
        self._preloaded.pop(image, None)
        self._open.discard(image)
        self._count()

    async def _load(self) -> None:
        """Read the files, once. Raises base errors."""
        if self._loaded:
            return
        images, records, damaged = await blocking.call_to_end(_OWNER, self._read)
        self._records = {each.image_ref: each for each in records}
        self._intents = dict.fromkeys(images, 0)
        self._open = set(images)
        self._damaged = damaged
        self._loaded = True
        self._count()

    async def _settle_intents(self, images: Iterable[pb.Image]) -> None:
        """Turn the intents of former agents whose image is present into records without credentials."""
        left = [image for image, pulls in self._intents.items() if not pulls]
        for found in images if left else ():
            names = {*found.repo_tags, *found.repo_digests}
            for image in [each for each in left if plan.same_image(each, names)]:
                # What was there before is no sign that the pull has succeeded.
                if self._preloaded.get(image) != found.id and await self._learn(image, found.id, None):
                    await self._end(image)
        for image in [each for each in left if each in self._intents][:-_MAX_LEFT]:
            await self._end(image)

    async def _replace_damaged(self, image: str, ref: str) -> None:
        """Write what a damaged file stood for: an image that was pulled, no one knows how."""
        if plan.file_name(ref) in self._damaged and await self._learn(image, ref, None):
            self._damaged.discard(plan.file_name(ref))
        if plan.file_name(image) in self._damaged:
            self._intents.setdefault(image, 0)
            self._open.add(image)

    def _read(self) -> tuple[list[str], list[PulledRecord], set[str]]:
        """Read all files: images of intents, records, names of damaged files."""
        damaged: set[str] = set()
        try:
            for directory in (self._pulling, self._pulled):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                remove_temporary_files(directory)
            images = list(_read_all(self._pulling, plan.read_intent, damaged))
            records = list(_read_all(self._pulled, plan.read_record, damaged))
        except OSError as error:
            raise Transient(f"{error.filename or self._pulled}: {error.strerror}") from error
        return images, records, damaged

    async def _write(self, path: Path, data: bytes) -> None:
        await blocking.call_to_end(_OWNER, _write_file, path, data)

    async def _remove(self, path: Path) -> None:
        await blocking.call_to_end(_OWNER, _remove_file, path)

    def _count(self) -> None:
        self._metrics.pull_records(len(self._intents), len(self._records))


def _read_all(directory: Path, parse: Callable[[bytes], _T], damaged: set[str]) -> Iterator[_T]:
    """Yield the content of a directory's files; damaged ones are set aside and their names added. Blocks; OSError."""
    with os.scandir(directory) as entries:
        names = sorted(each.name for each in entries if each.name.startswith("sha256-"))
    for name in names:
        base, aside, _ = name.partition(ASIDE)
        if aside:
            damaged.add(base)
        elif not name.endswith(".tmp"):  # what a Go kubelet had not finished
            try:
                yield read_state_file(directory / name, _MAX_FILE, parse)
            except FileNotFoundError:
                continue
            except (Invalid, OSError) as error:
                _log.warning("record of a pulled image is damaged", extra={"error": str(error)})
                damaged.add(name)


def _write_file(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, data, durable=True)
    except OSError as error:
        raise Transient(f"{path} cannot be written: {error.strerror}") from error


def _remove_file(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Transient(f"{path} cannot be removed: {error.strerror}") from error
