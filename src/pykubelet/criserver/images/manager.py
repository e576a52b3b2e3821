"""Pulls, imports, lists and removes images."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import structs

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError
from pykubelet.base.threads import stoppable, to_its_end
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.images import manifests
from pykubelet.criserver.images.archive import Found, read_archive, write_archive
from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.index import ImageIndex
from pykubelet.criserver.images.manifests import Descriptor, Platform
from pykubelet.criserver.images.ports import LayerStore, Registry, Repository, Retainer
from pykubelet.criserver.images.reference import Reference, id_prefix, is_digest, parse
from pykubelet.criserver.images.types import (
    AuthConfig,
    FsInfo,
    ImageRecord,
    Layer,
    OnProgress,
    Phase,
    Progress,
    ignore_progress,
)

_PARALLEL = 3
_MAX_NESTED = 3
_KEEP_PARTIAL: Seconds = 3600.0


@dataclass(frozen=True, slots=True)
class ImageDeps:
    """What the manager works with."""

    content: ContentStore
    index: ImageIndex
    layers: LayerStore
    retainer: Retainer
    registry: Registry
    platform: Platform
    clock: Clock
    pinned: frozenset[str] = frozenset()
    """References of images that the kubelet must not remove (the sandbox image)."""


class ImageManager:
    """The images of this machine. Call ``recover`` once before all else."""

    def __init__(self, deps: ImageDeps) -> None:
        self._deps = deps
        self._store = deps.content
        self._index = deps.index
        self._pinned = frozenset(str(parse(reference)) for reference in deps.pinned)
        self._change = asyncio.Lock()
        """Held while the index is changed, and while blobs are removed."""
        self._working = 0
        """Pulls and imports under way: while there are any, no blob is removed."""
        self._fetching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def recover(self) -> None:
        """Forget images whose blobs are lost, remove blobs and layers that belong to none."""
        for image in self.list():
            if not all(self._store.has(digest) for digest in image.blobs):
                await to_its_end(self._index.remove, image.id)
        await self.collect()

    def list(self) -> list[ImageRecord]:
        """All images."""
        return [self._shown(image) for image in self._index.images.values()]

    def status(self, ref_or_id: str) -> ImageRecord | None:
        """An image by reference, by digest reference, by id or by the beginning of an id that only one image has."""
        found = self._find(ref_or_id)
        return None if found is None else self._shown(found)

    async def pull(
        self, reference: str, auth: AuthConfig | None = None, on_progress: OnProgress = ignore_progress
    ) -> ImageRecord:
        """Fetch an image and unpack it.

        Invalid: the reference, the image or a blob is bad; NotFound: the registry has no such image; Permanent: it
        refuses us; Transient: it cannot be reached, or our disk is full.
        """
        wanted = parse(reference)
        async with self._work(), self._deps.registry.open(wanted, auth) as repository:
            on_progress(Progress(reference, "", Phase.RESOLVING))
            try:
                top, manifest = await self._resolve(repository, wanted)
            except PykubeletError as error:
                # The words by which kubelets and people tell this from a cut transfer.
                raise type(error)(f"failed to resolve reference {wanted}: {error}") from error
            record = await self._fetch(repository, manifest, str(wanted), on_progress)
            tags = () if wanted.digest else (str(wanted),)
            return await self._keep(structs.replace(record, tags=tags, digests=(wanted.with_digest(top),)), on_progress)

    async def remove(self, ref_or_id: str) -> None:
        """Remove an image with all its references, as CRI's RemoveImage; done is done.

        Layers that a container uses stay until it is removed.
        """
        async with self._change:
            found = self._find(ref_or_id)
            if found is None:
                return
            await to_its_end(self._index.remove, found.id)
        await self.collect()

    async def untag(self, reference: str) -> None:
        """Take one reference from its image; the image goes with its last one. NotFound: there is no such reference."""
        wanted = str(parse(reference))
        async with self._change:
            found = self._find(wanted)
            if found is None:
                raise NotFound(f"image {wanted} is not present")
            tags = tuple(tag for tag in found.tags if tag != wanted)
            digests = tuple(digest for digest in found.digests if digest != wanted)
            # Digest references come with tags; what was pulled by digest alone keeps its one.
            if tags or (digests and not found.tags):
                await to_its_end(self._index.replace, structs.replace(found, tags=tags, digests=digests))
            else:
                await to_its_end(self._index.remove, found.id)
        await self.collect()

    async def fs_info(self) -> FsInfo:
        """What blobs and layers take."""
        blob_bytes, blob_inodes = await asyncio.to_thread(self._store.used)
        layer_bytes, layer_inodes = self._deps.layers.used()
        total = Bytes(blob_bytes + layer_bytes)
        return FsInfo(str(self._store.root), total, blob_inodes + layer_inodes)

    async def import_archive(self, path: Path, on_progress: OnProgress = ignore_progress) -> tuple[ImageRecord, ...]:
        """Take the images of an OCI or docker archive that are for this platform. Invalid: none, or bad ones."""
        async with self._work():
            found = await stoppable(lambda stop: read_archive(path, self._store, self._deps.platform, stop))
            if not found:
                raise Invalid(f"{path} has no image for this platform")
            return tuple([await self._adopt(image, str(path), on_progress) for image in found])

    async def export_archive(self, ref_or_id: str, path: Path) -> None:
        """Write an image as an OCI archive. NotFound: it is not present."""
        async with self._work():
            found = self._find(ref_or_id)
            if found is None:
                raise NotFound(f"image {ref_or_id} is not present")
            tag = () if id_prefix(ref_or_id) == found.id.removeprefix("sha256:") else (str(parse(ref_or_id)),)
            tags = [name for name in tag if name in found.tags] or found.tags
            await to_its_end(write_archive, found, await self._type_of(found), tags, self._store, path)

    async def collect(self) -> None:
        """Remove blobs and layers that no image needs; while a pull runs this waits for its end."""
        async with self._change:
            if self._working:
                return
            images = self._index.images.values()
            wanted = {digest for image in images for digest in image.blobs}
            await to_its_end(self._sweep, wanted)
            await self._deps.retainer.retain({chain for image in images for chain in image.layers})

    def _sweep(self, wanted: set[str]) -> None:
        for digest in self._store.digests() - wanted:
            self._store.remove(digest)
        self._store.sweep(self._deps.clock.now() - _KEEP_PARTIAL)

    @asynccontextmanager
    async def _work(self) -> AsyncIterator[None]:
        async with self._change:
            self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                await self.collect()

    async def _resolve(self, repository: Repository, wanted: Reference) -> tuple[str, Descriptor]:
        """The digest that the reference stands for, and the manifest for this platform; manifests are stored."""
        data, media_type = await repository.manifest(wanted.target)
        top = wanted.digest or manifests.digest_of(data)
        digest = top
        for _ in range(_MAX_NESTED):
            if media_type not in manifests.INDEXES:
                await to_its_end(self._store.add, digest, data)
                return top, Descriptor(digest, len(data), media_type)
            entries = manifests.parse_index(data, media_type, str(wanted))
            chosen = manifests.choose(entries, self._deps.platform, str(wanted))
            data, media_type = await repository.manifest(chosen.digest)
            if media_type != chosen.media_type or len(data) != chosen.size:
                raise Invalid(
                    f"{wanted}: its index announces {chosen.digest} as {chosen.media_type} of {chosen.size} bytes; "
                    f"it came as {media_type} of {len(data)}"
                )
            digest = chosen.digest
        raise Invalid(f"{wanted}: indexes within indexes without an end")

    async def _fetch(
        self, repository: Repository, manifest: Descriptor, what: str, on_progress: OnProgress
    ) -> ImageRecord:
        """Fetch all blobs of a manifest and unpack its layers, several at a time."""
        data = await asyncio.to_thread(self._store.read, manifest.digest, manifests.MAX_DOCUMENT)
        parsed = manifests.parse_manifest(data, manifest.media_type, what)
        if parsed.config.size > manifests.MAX_DOCUMENT:
            raise Invalid(f"{what}: its configuration has {parsed.config.size} bytes")
        await self._blob(repository, parsed.config, Progress(what, "", Phase.RESOLVING), ignore_progress)
        record = await self._record(manifest, what)
        slots = asyncio.Semaphore(_PARALLEL)

        async def one(count: int) -> None:
            layer = record.stack[count]
            step = Progress(what, layer.digest, Phase.DOWNLOADING, total=Bytes(layer.size))
            async with slots:
                await self._blob(repository, Descriptor(layer.digest, layer.size), step, on_progress)
            await self._unpack(record.stack[: count + 1], what, on_progress)

        async with self._deps.layers.pinned(record.layers):
            await _all(one(count) for count in range(len(record.stack)))
        return record

    async def _blob(self, repository: Repository, blob: Descriptor, step: Progress, on_progress: OnProgress) -> None:
        """Have a blob in the store; when two pulls want the same one, it is fetched once."""
        async with self._fetching.setdefault(blob.digest, asyncio.Lock()):
            if await asyncio.to_thread(self._store.has, blob.digest, blob.size):
                on_progress(Progress(step.reference, step.layer, Phase.PRESENT, Bytes(blob.size), Bytes(blob.size)))
                return

            def told(offset: int) -> None:
                on_progress(Progress(step.reference, step.layer, Phase.DOWNLOADING, Bytes(offset), Bytes(blob.size)))

            with self._store.writer(blob.digest, blob.size) as writer:
                await to_its_end(writer.resume)
                told(writer.offset)
                await repository.blob(blob, writer, told)

    async def _unpack(self, stack: Sequence[Layer], what: str, on_progress: OnProgress) -> None:
        top = stack[-1]
        size = Bytes(top.size)
        on_progress(Progress(what, top.digest, Phase.UNPACKING, size, size))
        await self._deps.layers.ensure(stack)
        on_progress(Progress(what, top.digest, Phase.DONE, size, size))

    async def _adopt(self, found: Found, what: str, on_progress: OnProgress) -> ImageRecord:
        """Take an image all blobs of which are in the store."""
        record = await self._record(found.manifest, what)
        for layer in record.stack:
            if not await asyncio.to_thread(self._store.has, layer.digest, layer.size):
                raise Invalid(f"{what}: layer {layer.digest} of {layer.size} bytes is not in it")
        async with self._deps.layers.pinned(record.layers):
            await _all(self._unpack(record.stack[: count + 1], what, on_progress) for count in range(len(record.stack)))
            names = {parse(tag).name for tag in found.tags} if found.genuine else ()
            digests = tuple(f"{name}@{found.manifest.digest}" for name in sorted(names))
            return await self._keep(structs.replace(record, tags=found.tags, digests=digests), on_progress)

    async def _record(self, manifest: Descriptor, what: str) -> ImageRecord:
        """An image as its stored manifest and configuration tell it; it has no references yet."""
        limit = manifests.MAX_DOCUMENT
        data = await asyncio.to_thread(self._store.read, manifest.digest, limit)
        parsed = manifests.parse_manifest(data, manifest.media_type, what)
        try:
            config_data = await asyncio.to_thread(self._store.read, parsed.config.digest, limit)
        except NotFound as error:
            raise Invalid(f"{what}: its configuration {parsed.config.digest} is not in it") from error
        config = manifests.parse_config(config_data, what)
        platform = config.platform
        if platform.os and (platform.os, platform.architecture) != (
            self._deps.platform.os,
            self._deps.platform.architecture,
        ):
            raise Invalid(f"{what} is for {platform.os}/{platform.architecture}, which cannot run here")
        stack = manifests.stack(parsed, config.diff_ids, what)
        return ImageRecord(
            id=parsed.config.digest,
            tags=(),
            digests=(),
            size=len(data) + len(config_data) + sum({layer.digest: layer.size for layer in stack}.values()),
            config=config.config,
            stack=stack,
            manifest=manifest.digest,
        )

    async def _keep(self, record: ImageRecord, on_progress: OnProgress) -> ImageRecord:
        async with self._change:
            await to_its_end(self._index.put, record)
        await self._deps.layers.sync(record.layers)
        return self._shown(self._index.images[record.id])

    async def _type_of(self, image: ImageRecord) -> str:
        data = await asyncio.to_thread(self._store.read, image.manifest, manifests.MAX_DOCUMENT)
        return manifests.media_type_of(data)

    def _shown(self, image: ImageRecord) -> ImageRecord:
        return structs.replace(image, pinned=True) if self._pinned & set(image.tags) else image

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


async def _all(works: Iterable[Coroutine[object, object, None]]) -> None:
    """Run them side by side; the first error ends all and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for number, work in enumerate(works):
                group.create_task(work, name=f"layer-{number}")
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
