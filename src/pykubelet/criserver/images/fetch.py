"""Fetching of one image: choose its manifest, download its blobs and unpack its layers, several in parallel."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from weakref import WeakValueDictionary

from msgspec import Struct, field, structs

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.tasks import wait_all
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Unsupported
from pykubelet.base.image_reference import Reference
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.images import limits, manifests
from pykubelet.criserver.images.content import BlobWriter, ContentStore
from pykubelet.criserver.images.image_interfaces import LayerStore, Repository
from pykubelet.criserver.images.image_types import (
    ImageConfig,
    ImageRecord,
    Layer,
    OnProgress,
    Phase,
    Progress,
    VerifiedSignature,
    ignore_progress,
)
from pykubelet.criserver.images.manifests import Descriptor, Manifest, Platform
from pykubelet.criserver.images.plan.artifact import files_of
from pykubelet.criserver.images.signatures import Candidate, Trust

_PARALLEL = 3
"""Layers of one image that are fetched at a time, and that are unpacked."""
_MAX_NESTED = 3


class PresentImages(Struct, frozen=True):
    """Records of the images that are present."""

    manifests: Mapping[str, str]
    """The manifests of images of one repository, by the digests to which references of it resolved."""
    verified: Mapping[str, tuple[VerifiedSignature, ...]]
    """The verified signatures of all images that have any, by the digest of the manifest."""


class FetchJob(Struct, frozen=True):
    """One pull or import: the image's name for messages, the progress callback, and what was requested so far."""

    what: str
    on_progress: OnProgress
    registry: str = ""
    """The registry that it is fetched from; empty: nothing is."""
    blobs: set[str] = field(default_factory=set)
    layers: set[str] = field(default_factory=set)
    """Chain ids."""
    unpacking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_PARALLEL))

    @property
    def knows_blobs(self) -> bool:
        """Whether it has got so far that it requests the blobs that the image's manifest names."""
        return len(self.blobs) > 1

    def tell(self, phase: Phase, layer: str = "", done: int = 0, total: int = 0) -> None:
        self.on_progress(Progress(self.what, layer, phase, Bytes(done), Bytes(total)))


class Fetcher:
    """Fetches images into the stores. What two pulls need is fetched once from a registry, and unpacked once.

    A slow registry holds up no pull from another one, by naming its blobs.
    """

    def __init__(self, *, store: ContentStore, layers: LayerStore, platform: Platform, trust: Trust) -> None:
        self._trust = trust
        self._store = store
        self._layers = layers
        self._platform = platform
        self._locks: WeakValueDictionary[tuple[str, str | None], asyncio.Lock] = WeakValueDictionary()
        """Each is held while its blob is looked for, added or removed, or fetched from its registry."""
        self._jobs: list[FetchJob] = []

    @contextmanager
    def job(self, what: str, on_progress: OnProgress, registry: str) -> Iterator[FetchJob]:
        """Begin a pull: what it requests is needed until the context is left."""
        job = FetchJob(what, on_progress, registry)
        self._jobs.append(job)
        try:
            yield job
        finally:
            self._jobs = [each for each in self._jobs if each is not job]

    def needed_blobs(self) -> set[str]:
        """Return the blobs that running pulls have requested."""
        return {digest for job in self._jobs for digest in job.blobs}

    def needed_layers(self) -> set[str]:
        """Return the layers (chain ids) that running pulls have requested."""
        return {chain_id for job in self._jobs for chain_id in job.layers}

    async def remove(self, digest: str, deadline: Seconds) -> None:
        """Remove a blob from the store, unless a pull has requested it meanwhile."""
        if not (self._is_busy(digest) or any(digest in job.blobs for job in self._jobs)):
            async with self._lock(digest):
                await blocking.call_to_end("images", self._store.remove, digest, deadline=deadline)

    async def pull(
        self, repository: Repository, wanted: Reference, job: FetchJob, present: PresentImages
    ) -> tuple[ImageRecord, str]:
        """Pull an image; returns it without references, and the digest to which the reference resolves.

        The image policy is applied before any blob is fetched. What is in the stores is not fetched again. Raises the
        errors of ``ImageManager.pull``.
        """
        job.tell(Phase.RESOLVING)
        rule = await self._trust.rule_for(wanted)
        try:
            found = await self._find(repository, wanted, present.manifests, job)
            top, manifest = found or await self._resolve(repository, wanted, job)
        except PykubeletError as error:
            # Kubelets and users distinguish this text from that of an interrupted transfer.
            said = str(error).removeprefix(f"{wanted}: ")
            raise type(error)(f"failed to resolve reference {wanted}: {said}") from error
        digests = tuple(dict.fromkeys((top, manifest.digest)))
        known = present.verified.get(manifest.digest, ())
        verified = await self._trust.verify(rule, repository, Candidate(wanted, digests, known))
        try:
            record = await self._fetch(repository, manifest, job)
            return structs.replace(record, verified=verified), top
        except PykubeletError as error:
            said = str(error).removeprefix(f"{wanted}: ")
            raise type(error)(f"failed to pull image {wanted}: {said}") from error

    async def adopt(self, manifest: Descriptor, job: FetchJob) -> ImageRecord:
        """Take over an image whose blobs are all in the store. Invalid: one is missing, or they do not match."""
        record = await self._record(manifest, job)
        for layer in record.stack:
            if not await blocking.call(f"blob/{layer.digest}", self._store.has, layer.digest, layer.size):
                raise Invalid(f"{job.what}: layer {layer.digest} of {layer.size} bytes is not in it")
        async with self._layers.pinned(record.layers):
            await _all(self._unpack(record.stack[: count + 1], job) for count in range(len(record.stack)))
        return record

    async def drop_partial(self, blobs: Iterable[str]) -> None:
        """Remove the partial files of blobs that no pull fetches any more."""
        for digest in blobs:
            if not self._is_busy(digest):
                async with self._lock(digest):
                    await blocking.call_to_end(f"blob/{digest}", self._store.drop_partial, digest)

    async def _find(
        self, repository: Repository, wanted: Reference, present: Mapping[str, str], job: FetchJob
    ) -> tuple[str, Descriptor] | None:
        """The manifest of an image that is here already, if the registry says that the reference still means it.

        The registry is asked for a digest, too: it decides whether these credentials may have the image.
        """
        if not present:
            return None
        top = await repository.resolve(wanted.target)
        manifest = present.get(top)
        if manifest is None or (wanted.digest and top != wanted.digest):
            return None
        job.blobs.add(manifest)
        try:
            async with self._lock(manifest):
                data = await self._read(manifest)
        except (NotFound, Invalid):
            return None
        return top, Descriptor(manifest, len(data), manifests.media_type_of(data))

    async def _resolve(self, repository: Repository, wanted: Reference, job: FetchJob) -> tuple[str, Descriptor]:
        """Resolve a reference to its digest and to the manifest for this platform, and store the manifests."""
        data, media_type = await repository.manifest(wanted.target)
        top = wanted.digest or manifests.digest_of(data)
        digest = top
        for _ in range(_MAX_NESTED):
            if media_type not in manifests.INDEXES:
                await self._add(digest, data, job)
                return top, Descriptor(digest, len(data), media_type)
            entries = manifests.parse_index(data, media_type, str(wanted))
            chosen = manifests.choose(entries, self._platform, str(wanted))
            data, media_type = await repository.manifest(chosen.digest, chosen.media_type)
            if media_type != chosen.media_type or len(data) != chosen.size:
                raise Invalid(
                    f"{wanted}: its index announces {chosen.digest} as {chosen.media_type} of {chosen.size} bytes; "
                    f"it came as {media_type} of {len(data)}"
                )
            digest = chosen.digest
        raise Invalid(f"{wanted}: its indexes are nested more than {_MAX_NESTED} levels deep")

    async def _fetch(self, repository: Repository, manifest: Descriptor, job: FetchJob) -> ImageRecord:
        """Fetch all blobs of a manifest and unpack its layers, several in parallel."""
        data = await self._read(manifest.digest)
        parsed = manifests.parse_manifest(data, manifest.media_type, job.what)
        if parsed.config.size > limits.MAX_DOCUMENT:
            raise Invalid(f"{job.what}: its configuration has {parsed.config.size} bytes")
        sizes = {layer.digest: layer.size for layer in parsed.layers}
        total = sum(sizes.values())
        job.blobs.update((parsed.config.digest, *sizes))
        job.tell(Phase.RESOLVED, total=total)
        for digest, size in sizes.items():
            job.tell(Phase.WAITING, digest, total=size)
        if not await self._add_empty(parsed, job):
            await self._blob(repository, parsed.config, FetchJob(job.what, ignore_progress, job.registry))
        record = await self._record(manifest, job)
        job.layers.update(record.layers)
        slots = asyncio.Semaphore(_PARALLEL)
        fetched = [asyncio.Event() for _ in record.stack]

        async def one(count: int) -> None:
            stack = record.stack[: count + 1]
            async with slots:
                await self._layer(repository, stack[-1], job)
            fetched[count].set()
            try:
                await self._unpack(stack, job)
            except NotFound:  # it needs layers below that were not here yet
                for below in fetched[:count]:
                    await below.wait()
                await self._unpack(stack, job)

        async with self._layers.pinned(record.layers):
            await _all(one(count) for count in range(len(record.stack)))
        job.tell(Phase.DONE, done=total, total=total)
        return record

    async def _layer(self, repository: Repository, layer: Layer, job: FetchJob) -> None:
        try:
            await self._blob(repository, Descriptor(layer.digest, layer.size), job)
        except NotFound as error:
            if not manifests.is_foreign(layer.media_type):
                raise
            raise Unsupported(
                f"layer {layer.digest} is a foreign layer ({layer.media_type}) that the registry does not have; "
                "it is not fetched from other hosts"
            ) from error

    async def _blob(self, repository: Repository, blob: Descriptor, job: FetchJob) -> None:
        """Ensure that a blob is in the store; if two pulls need it from one registry, it is fetched once."""
        async with self._lock(blob.digest, job.registry):
            async with self._lock(blob.digest):
                present = await blocking.call(f"blob/{blob.digest}", self._store.has, blob.digest, blob.size)
            if present:
                job.tell(Phase.PRESENT, blob.digest, blob.size, blob.size)
                return

            def report(offset: int) -> None:
                job.tell(Phase.DOWNLOADING, blob.digest, offset, blob.size)

            owner = f"blob/{blob.digest}/{job.registry}"
            with ExitStack() as opened:

                def open_writer() -> BlobWriter:
                    return opened.enter_context(self._store.writer(blob.digest, blob.size, job.registry))

                try:
                    writer = await blocking.call_to_end(owner, open_writer, deadline=None)
                    await blocking.call_stoppable(owner, writer.resume)
                    report(writer.offset)
                    await repository.blob(blob, writer, report)
                finally:
                    await blocking.call_to_end(owner, opened.close, deadline=None)

    async def _read(self, digest: str) -> bytes:
        """Read a document from the store. Raises NotFound, or Invalid if it is too large."""
        return await blocking.call(f"blob/{digest}", self._store.read, digest, limits.MAX_DOCUMENT)

    async def _unpack(self, stack: Sequence[Layer], job: FetchJob) -> None:
        top = stack[-1]
        job.tell(Phase.UNPACKING, top.digest, top.size, top.size)
        async with job.unpacking:
            await self._layers.ensure(stack)
        job.tell(Phase.DONE, top.digest, top.size, top.size)

    async def _record(self, manifest: Descriptor, job: FetchJob) -> ImageRecord:
        """The record of an image from its stored manifest and configuration, without references."""
        what = job.what
        data = await self._read(manifest.digest)
        parsed = manifests.parse_manifest(data, manifest.media_type, what)
        await self._add_empty(parsed, job)
        try:
            config_data = await self._read(parsed.config.digest)
        except NotFound as error:
            raise Invalid(f"{what}: its configuration {parsed.config.digest} is not in it") from error
        size = len(data) + len(config_data)
        if parsed.artifact_type:
            return ImageRecord(
                id=manifest.digest,
                tags=(),
                digests=(),
                size=size + _size_of(files := files_of(parsed.layers, what)),
                config=ImageConfig(),
                stack=files,
                manifest=manifest.digest,
                artifact_type=parsed.artifact_type,
                artifact_config=parsed.config.digest,
            )
        config = manifests.parse_config(config_data, what)
        manifests.check_platform(config.platform, self._platform, what)
        stack = manifests.stack(parsed, config.diff_ids, what)
        return ImageRecord(
            id=parsed.config.digest,
            tags=(),
            digests=(),
            size=size + _size_of(stack),
            config=config.config,
            stack=stack,
            manifest=manifest.digest,
            checkpoint=parsed.checkpoint,
        )

    async def _add_empty(self, manifest: Manifest, job: FetchJob) -> bool:
        """Store the empty configuration if that is the manifest's, as registries and archives may omit it."""
        if not manifest.artifact_type or manifest.config.digest != manifests.EMPTY_DIGEST:
            return False
        await self._add(manifests.EMPTY_DIGEST, manifests.EMPTY, job)
        return True

    async def _add(self, digest: str, data: bytes, job: FetchJob) -> None:
        job.blobs.add(digest)
        async with self._lock(digest):
            await blocking.call_to_end(f"blob/{digest}", self._store.add, digest, data, deadline=None)

    def _lock(self, digest: str, registry: str | None = None) -> asyncio.Lock:
        return self._locks.setdefault((digest, registry), asyncio.Lock())

    def _is_busy(self, digest: str) -> bool:
        return any(key[0] == digest and lock.locked() for key, lock in list(self._locks.items()))


def _size_of(stack: Sequence[Layer]) -> int:
    """The bytes of all blobs of layers; equal ones count once."""
    return sum({layer.digest: layer.size for layer in stack}.values())


async def _all(works: Iterable[Coroutine[object, object, None]]) -> None:
    """Run coroutines in parallel; the first error cancels the others and is raised as it is."""
    await wait_all([asyncio.create_task(work, name=f"layer-{number}") for number, work in enumerate(works)])
