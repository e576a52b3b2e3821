"""The image manager: pulls, imports, exports, lists and removes images."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import IO, Final

from msgspec import Struct, structs

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent
from pykubelet.base.image_reference import Reference
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.images.archive import ArchivedImage, read_archive
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.export import ExportedImage, archive_pieces
from pykubelet.criserver.images.fetch import Fetcher, FetchJob, PresentImages
from pykubelet.criserver.images.image_interfaces import LayerStore, Registry, Retainer
from pykubelet.criserver.images.image_types import (
    AuthConfig,
    FsInfo,
    ImageRecord,
    ImageRemoval,
    OnProgress,
    Progress,
    PrunedImages,
    RegistryUnavailable,
    ignore_progress,
)
from pykubelet.criserver.images.index import ImageIndex
from pykubelet.criserver.images.interrupted_pulls import InterruptedPulls
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.plan.removal import released_blob_bytes, released_layers, unused, without_name
from pykubelet.criserver.images.reference import id_prefix, is_digest, parse
from pykubelet.criserver.images.running_pulls import RunningPulls
from pykubelet.criserver.images.signatures import Trust, allow_all
from pykubelet.criserver.unpack.room import Reserve
from pykubelet.linux.errors import wrap

_REMOVAL: Seconds = 30.0
"""Deadline for the removal of one blob; pulls wait meanwhile."""
_SHOWN_USERS = 3


class ImageSettings(Struct, frozen=True, kw_only=True):
    """The settings of the image manager."""

    platform: Platform
    mountpoint: str
    """A directory of the file system with the blobs and layers."""
    pinned: frozenset[str] = frozenset()
    """References of images that the kubelet must not remove (the sandbox image)."""
    trust: Trust = Trust(allow_all)
    """The image policy."""
    spare: Reserve = Reserve(0.2)
    """The part of the disk that what interrupted pulls have left must leave free; kubelets evict pods below 15 %."""


class ImageDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of the image manager."""

    content: ContentStore
    index: ImageIndex
    layers: LayerStore
    retainer: Retainer
    registry: Registry
    clock: Clock
    settings: ImageSettings
    on_pulled: Callable[[Bytes, Seconds], None] | None = None
    """Gets the bytes that each pull has fetched, and its duration."""


class ImageManager:
    """The images of this machine. Call ``recover`` once before all other methods."""

    def __init__(self, deps: ImageDeps) -> None:
        """Blocks. What the server before has left of pulls is kept like that of interrupted pulls."""
        self._deps = deps
        self._store = deps.content
        self._index = deps.index
        settings = deps.settings
        self._fetcher = Fetcher(
            store=deps.content, layers=deps.layers, platform=settings.platform, trust=settings.trust
        )
        self._pinned = frozenset(str(parse(reference)) for reference in deps.settings.pinned)
        self._removals = Guard("images.blobs", deps.clock.monotonic)
        self._sweeps = Guard("images.partial-blobs", deps.clock.monotonic)
        self._pulls = RunningPulls(deps.clock, deps.on_pulled)
        self._change = asyncio.Lock()
        """Held while the index is changed, and while blobs are removed."""
        self._working = 0
        """Number of running imports and exports; no blob is removed meanwhile."""
        self.interrupted: Final = InterruptedPulls(deps.content.root, spare=settings.spare, clock=deps.clock)
        of_images = {digest for image in deps.index.images.values() for digest in image.blobs}
        if left := (deps.content.partial() | deps.content.digests()) - of_images:
            self.interrupted.add("", left)  # by pulls of the server before

    async def recover(self) -> None:
        """Remove images whose blobs are lost from the index, and blobs and layers that belong to no image."""
        unknown: OSError | None = None
        for image_id in tuple(self._index.images):
            async with self._change:  # pulls may end meanwhile
                image = self._index.images.get(image_id)
                try:
                    lost = image is not None and not await blocking.call(
                        "images", self._has_all, image.blobs, deadline=None
                    )
                except OSError as error:
                    unknown = error
                    continue
                if lost:
                    await blocking.call_to_end("images", self._index.remove, image_id, deadline=None)
        await self.collect()
        if unknown is not None:
            raise wrap(unknown, "cannot check whether all images are complete")

    def _has_all(self, blobs: Iterable[str]) -> bool:
        return all(map(self._store.has, blobs))

    def list(self) -> list[ImageRecord]:
        """List all images."""
        return [self._shown(image) for image in self._index.images.values()]

    def status(self, ref_or_id: str) -> ImageRecord | None:
        """Find an image by reference, digest reference, id or unique prefix of an id; None if it is missing."""
        found = self._find(ref_or_id)
        return None if found is None else self._shown(found)

    async def pull(
        self, reference: str, auth: AuthConfig | None = None, on_progress: OnProgress = ignore_progress
    ) -> ImageRecord:
        """Pull an image and unpack it.

        Raises Invalid if the reference, the image or a blob is bad; NotFound if the registry does not have the image;
        Unauthenticated, Denied or Permanent if it refuses access; RegistryUnavailable if it cannot be reached;
        SignatureRejected if the image policy does not permit it; Transient if the disk is full. What a pull that was
        cancelled, or whose registry could not be reached, has downloaded is kept for an hour.
        """
        wanted = parse(reference)
        name = str(wanted)
        try:
            with self._pulls.follow(name, on_progress) as note, self._fetcher.job(name, note, wanted.host) as job:
                return await self._pull(wanted, auth, job)
        finally:
            await shielded(self.collect)

    async def _pull(self, wanted: Reference, auth: AuthConfig | None, job: FetchJob) -> ImageRecord:
        name = job.what
        async with self._deps.registry.open(wanted, auth) as repository:
            try:
                record, top = await self._fetcher.pull(repository, wanted, job, self._present(wanted))
            except (RegistryUnavailable, asyncio.CancelledError):  # a client that restarts cancels its pulls
                if job.knows_blobs:  # else what the attempt before has left is all that there is
                    self.interrupted.add(name, job.blobs)
                raise
            except BaseException:
                # Its manifest may name blobs that others have begun to fetch.
                await shielded(lambda: self._fetcher.drop_partial(job.blobs - self.interrupted.of_others(name)))
                raise
            self.interrupted.forget(name)
            tags = () if wanted.digest else (name,)
            return await self._keep(structs.replace(record, tags=tags, digests=(wanted.with_digest(top),)))

    def _present(self, wanted: Reference) -> PresentImages:
        start = f"{wanted.name}@"
        images = self._index.images.values()
        resolved = {
            digest.removeprefix(start): image.manifest
            for image in images
            for digest in image.digests
            if digest.startswith(start)
        }
        return PresentImages(resolved, {image.manifest: image.verified for image in images if image.verified})

    async def remove(self, ref_or_id: str) -> None:
        """Remove an image with all its references, as CRI's RemoveImage. Idempotent: no error if it is missing.

        Layers that a container uses are kept until the container is removed. Other files are deleted when this returns,
        unless that takes long: a kubelet removes images for their space, measures it then, and would evict a pod.
        """
        async with self._change:
            found = self._find(ref_or_id)
            if found is None:
                return
            await blocking.call_to_end("images", self._index.remove, found.id, deadline=None)
        self.interrupted.forget_all()  # a kubelet that cannot free enough by images ends pods next
        await self.collect()
        await self._deps.retainer.make_room(always=True)

    async def remove_name(self, ref_or_id: str, users: Callable[[str], Sequence[str]], *, force: bool) -> ImageRemoval:
        """Remove one name of an image, and the image with its last name; an id removes it with all names.

        ``users`` returns the containers that use an image, by its id. Raises NotFound; Permanent if a container uses an
        image that would be removed, unless ``force``: then the container keeps the layers.
        """
        async with self._change:
            found = self._get(ref_or_id)
            name = self._name_of(ref_or_id, found)
            left = without_name(found, name) if name else None
            if left is not None:
                await blocking.call_to_end("images", self._index.drop_names, left, deadline=None)
                gone = {*found.tags, *found.digests} - {*left.tags, *left.digests}
                return ImageRemoval(tuple(sorted(gone)), "", Bytes(0))
            if not force and (containers := users(found.id)):
                raise Permanent(_in_use(ref_or_id, containers))
            freed = self._freed((found,))
            await blocking.call_to_end("images", self._index.remove, found.id, deadline=None)
        self.interrupted.forget_all()
        await self.collect()
        return ImageRemoval((*found.tags, *found.digests), found.id, freed)

    async def tag(self, ref_or_id: str, name: str) -> ImageRecord:
        """Give an image another name, which another image loses. Raises NotFound; Invalid: not a name with a tag."""
        target = _tag(name)
        async with self._change:
            found = self._get(ref_or_id)
            await blocking.call_to_end("images", self._index.put, structs.replace(found, tags=(target,)), deadline=None)
            return self._shown(self._index.images[found.id])

    async def prune(
        self, users: Callable[[str], Sequence[str]], keep: Sequence[str], *, also_tagged: bool, dry_run: bool
    ) -> PrunedImages:
        """Remove the images that no container uses and ``keep`` does not name; see ``remove_name`` for ``users``."""
        async with self._change:
            images = self.list()
            used = {image.id for image in images if users(image.id)}
            used.update(kept.id for ref in keep if (kept := self._find(ref)))
            chosen = unused(images, used, also_tagged=also_tagged)
            freed = self._freed(chosen)
            for image in () if dry_run else chosen:
                await blocking.call_to_end("images", self._index.remove, image.id, deadline=None)
        if not dry_run:
            self.interrupted.forget_all()
            await self.collect()
        return PrunedImages(chosen, freed)

    @property
    def running_pulls(self) -> Sequence[Progress]:
        """The pulls that are running now, each as a whole."""
        return self._pulls.list()

    def _freed(self, removed: Sequence[ImageRecord]) -> Bytes:
        """The bytes that the removal of images frees, apart from what a running pull needs."""
        going = {image.id for image in removed}
        kept = [image for image in self._index.images.values() if image.id not in going]
        unpacked = self._deps.retainer.unused_bytes(released_layers(removed, kept))
        return Bytes(released_blob_bytes(removed, kept) + unpacked)

    def _get(self, ref_or_id: str) -> ImageRecord:
        found = self._find(ref_or_id)
        if found is None:
            raise NotFound(f"image {ref_or_id} is not present")
        return found

    @staticmethod
    def _name_of(ref_or_id: str, found: ImageRecord) -> str:
        """The image's full name if it was named by one; empty if by its id."""
        try:
            name = str(parse(ref_or_id))
        except Invalid:
            return ""
        return name if name in (*found.tags, *found.digests) else ""

    async def fs_info(self) -> FsInfo:
        """The disk usage of blobs and layers."""
        blob_bytes, blob_inodes = self._store.used()
        layer_bytes, layer_inodes = self._deps.layers.used()
        return FsInfo(self._deps.settings.mountpoint, Bytes(blob_bytes + layer_bytes), blob_inodes + layer_inodes)

    async def import_archive(
        self, file: IO[bytes], what: str, tags: Sequence[str] = (), on_progress: OnProgress = ignore_progress
    ) -> tuple[ImageRecord, ...]:
        """Import the images of an OCI or docker archive that are for this platform.

        ``file`` may be a pipe, ``what`` names it in errors. With ``tags`` the archive must have one image, and these
        become its names instead of those in the archive. Raises Invalid if there is no image or a bad one.
        """
        names = tuple(_tag(name) for name in tags)
        async with self._work():
            found = await blocking.call_stoppable(
                f"import/{id(file)}",
                lambda stop: read_archive(file, what, self._store, self._deps.settings.platform, stop),
            )
            if not found:
                raise Invalid(f"{what} has no image for this platform")
            if names and len({image.manifest.digest for image in found}) > 1:
                known = ", ".join(tag for image in found for tag in image.tags) or "without names"
                raise Invalid(f"{what} has {len(found)} images ({known}); they cannot all have the names given")
            return tuple([await self._adopt(image, names, FetchJob(what, on_progress)) for image in found])

    async def _adopt(self, found: ArchivedImage, names: Sequence[str], job: FetchJob) -> ImageRecord:
        record = await self._fetcher.adopt(found.manifest, job)
        tags = tuple(names or found.tags)
        repositories = {parse(tag).name for tag in tags} if found.genuine else ()
        digests = tuple(f"{name}@{found.manifest.digest}" for name in sorted(repositories))
        return await self._keep(structs.replace(record, tags=tags, digests=digests))

    async def export_archive(self, refs_or_ids: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Yield images as one archive. Raises NotFound before the first piece if one is not present."""
        async with self._work():
            chosen = [self._choose(ref_or_id) for ref_or_id in refs_or_ids]
            pieces = archive_pieces(chosen, self._store)
            owner = f"export/{id(pieces)}"
            while (piece := await blocking.call_to_end(owner, next, pieces, None, deadline=None)) is not None:
                yield piece

    def _choose(self, ref_or_id: str) -> ExportedImage:
        found = self._get(ref_or_id)
        name = self._name_of(ref_or_id, found)
        return ExportedImage(found, (name,) if name in found.tags else found.tags)

    async def collect(self) -> None:
        """Remove blobs and layers that no image and no running pull needs; an import or export postpones it to its end.

        A pull may take days, if a registry sends little at a time, and must not keep the space of other images.
        """
        async with self._change:
            if self._working:
                return
            images = self._index.images.values()
            interrupted = await self.interrupted.kept()
            pulled = self._fetcher.needed_blobs() | interrupted
            wanted = pulled.union(digest for image in images for digest in image.blobs)
            for digest in self._removals.due(sorted(self._store.digests() - wanted)):
                with self._removals.item(digest):
                    await self._fetcher.remove(digest, _REMOVAL)
            with self._sweeps.item("partial blobs"):
                partial = await blocking.call("images", self._store.partial, deadline=_REMOVAL)
                # Whatever needs a whole blob does not need what another registry has sent of it.
                await self._fetcher.drop_partial(sorted(partial - (pulled - self._store.digests())))
            layers = {chain for image in images for chain in image.layers}
            await self._deps.retainer.retain(layers | self._fetcher.needed_layers())

    @asynccontextmanager
    async def _work(self) -> AsyncIterator[None]:
        async with self._change:
            self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                await shielded(self.collect)

    async def _keep(self, record: ImageRecord) -> ImageRecord:
        async with self._change:
            await blocking.call_to_end("images", self._index.put, record, deadline=None)
            kept = self._index.images[record.id]
        await self._deps.layers.sync(record.layers)
        return self._shown(kept)

    def _shown(self, image: ImageRecord) -> ImageRecord:
        return structs.replace(image, pinned=True) if self._pinned & {*image.tags, *image.digests} else image

    def _find(self, ref_or_id: str) -> ImageRecord | None:
        images = self._index.images
        known = images.get(ref_or_id) if is_digest(ref_or_id) else images.get(f"sha256:{ref_or_id}")
        if known is not None:
            return known
        try:
            name = str(parse(ref_or_id))
        except Invalid:
            name = ""
        for image in images.values():
            if name and (name in image.tags or name in image.digests):
                return image
        prefix = id_prefix(ref_or_id)
        matches = [image for key, image in images.items() if prefix and key.startswith(f"sha256:{prefix}")]
        if len(matches) > 1:
            raise Conflict(f"image id {ref_or_id!r} is the beginning of {len(matches)} ids; give more of it")
        return matches[0] if matches else None


def _in_use(ref_or_id: str, containers: Sequence[str]) -> str:
    shown = ", ".join(containers[:_SHOWN_USERS])
    more = f" and {len(containers) - _SHOWN_USERS} more" if len(containers) > _SHOWN_USERS else ""
    return (
        f"image {ref_or_id} is used by {shown}{more}; remove the pods first, "
        "or use --force: running containers then keep its files"
    )


def _tag(name: str) -> str:
    reference = parse(name)
    if reference.digest:
        raise Invalid(f"{name!r} cannot be used as a name: a digest is computed from the content; give a tag")
    return str(reference)
