"""Composes the image components and adapts them for the container manager, the stats and the CRI calls.

Part of the composition root; no component imports it.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Permanent, PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.config import RegistryHost, RegistryTable, Settings
from pykubelet.criserver.container.interfaces import ImageFacts
from pykubelet.criserver.directories import make_traversable
from pykubelet.criserver.images import ContentStore, ImageDeps, ImageIndex, ImageManager, ImageSettings
from pykubelet.criserver.images.index import quarantine_of, quarantined_names
from pykubelet.criserver.images.interfaces import Registry
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.registry import Host, RegistryClient, Tls
from pykubelet.criserver.images.types import ImageRecord
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.server.images import ImageCalls
from pykubelet.criserver.server.transfer import TransferCalls
from pykubelet.criserver.spec import ImageDefaults
from pykubelet.criserver.stats.interfaces import LayerUsage
from pykubelet.criserver.storage import Layers, Snapshots
from pykubelet.criserver.types import ContainerID, ProtectedIds, UserNamespace
from pykubelet.linux.system import architecture

_log = logging.getLogger(__name__)
_COUNT_EVERY: Seconds = 30.0
_MOST_ASIDE = 100
"""How many entries of one directory are reported."""


class ContainerImages:
    """Adapter of the image store: ``container.interfaces.Images`` and ``sandbox.interfaces.PauseImages``."""

    def __init__(self, images: ImageManager, snapshots: Snapshots) -> None:
        self._images = images
        self._snapshots = snapshots
        self._pulling = asyncio.Lock()

    def find(self, reference: str) -> ImageFacts | None:
        """Find an image by name, digest or id."""
        record = self._images.status(reference)
        if record is None:
            return None
        config = record.config
        return ImageFacts(
            id=record.id,
            reference=record.digests[0] if record.digests else record.id,
            defaults=ImageDefaults(config.entrypoint, config.cmd, config.env, config.working_dir),
            user=config.user,
            stop_signal=config.stop_signal,
            volumes=config.volumes,
        )

    async def ensure(self, reference: str) -> ImageFacts:
        """Return an image, pulling it if it is not present; concurrent callers wait for the same pull."""
        async with self._pulling:
            found = self.find(reference)
            if found is None:
                await self._images.pull(reference)
                found = self.find(reference)
        assert found is not None, "it has just been pulled"
        return found

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None) -> Path:
        """Mount a root file system made of the image. NotFound: the image was just removed."""
        return await self._snapshots.prepare_rootfs(self._record(image_id), container, user)

    async def release(self, container: ContainerID) -> None:
        """Unmount and remove a container's root file system."""
        await self._snapshots.remove_rootfs(container)

    def _record(self, image_id: str) -> ImageRecord:
        record = self._images.status(image_id)
        if record is None:
            raise NotFound(f"image {image_id} was removed meanwhile; pull it again")
        return record


class WritableLayers:
    """Disk usage of the containers' writable layers; a ``stats.interfaces.Layers``."""

    def __init__(self, snapshots: Snapshots, directory: Path, clock: Clock) -> None:
        self._snapshots = snapshots
        self._directory = str(directory)
        self._clock = clock
        self._counted: LayerUsage | None = None
        self._counted_at: Seconds = 0.0
        self._counting = asyncio.Lock()

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        """Measure what one container has written; None when it is unknown."""
        try:
            found = await self._snapshots.usage(container)
        except NotFound:
            return None
        except (PykubeletError, OSError) as error:
            _log.warning(
                "disk usage of a writable layer unavailable", extra={"container": container, "error": str(error)}
            )
            return None
        if found is None:
            return None
        return LayerUsage(self._directory, found.bytes, found.inodes)

    async def total(self) -> LayerUsage:
        """Sum what all containers have written; cached for 30 seconds, since it walks all their files."""
        async with self._counting:
            now = self._clock.monotonic()
            if self._counted is None or now - self._counted_at >= _COUNT_EVERY:
                self._counted, self._counted_at = await self._count(), now
            return self._counted

    async def _count(self) -> LayerUsage:
        names = self._snapshots.containers()
        # Concurrently: each may take long.
        found = await asyncio.gather(*(self.usage(ContainerID(name)) for name in names))
        layers = [each for each in found if each is not None]
        used = Bytes(sum(each.used for each in layers))
        return LayerUsage(self._directory, used, sum(each.inodes for each in layers))


@dataclass(frozen=True, slots=True)
class Aside:
    """A file that could not be used and was set aside for an administrator."""

    kind: str
    id: str
    path: Path
    remedy: str

    async def check_removed(self) -> None:
        """Raise Permanent while the file exists."""
        if await blocking.call("images", os.path.lexists, self.path):
            raise Permanent(f"it cannot be used and is kept as {self.path}: {self.remedy}")


@dataclass(frozen=True, slots=True)
class ImageComponents:
    """The image components that the rest of the server uses."""

    images: ImageManager
    snapshots: Snapshots
    containers: ContainerImages
    usage: WritableLayers
    layers: Layers
    asides: tuple[Aside, ...]

    def calls(self) -> ImageCalls:
        """Return the calls of ImageService."""
        return ImageCalls(self.images, self.usage)

    def transfer_calls(self) -> TransferCalls:
        """Return the calls of ImageTransfer, a service of this project beside CRI."""
        return TransferCalls(self.images)

    def recover(self, wanted: Collection[str], protected: ProtectedIds, repairs: Repairs) -> None:
        """Schedule the removal of root file systems without a container and of blobs without an image."""
        for name in self.snapshots.containers():
            # The names of mounted images begin with the id of their container.
            if name not in wanted and name.partition("-")[0] not in protected:
                repairs.add("unused root file system", name, partial(self.snapshots.remove_rootfs, name))
        for place in () if protected.everything else self.snapshots.leftovers():
            repairs.add("unused root file system", place.name, partial(self.snapshots.remove_leftover, place))
        for path in self.layers.leftovers():
            name = f"{path.parent.name}/{path.name}"
            repairs.add("unused image layer", name, partial(self.layers.remove_leftover, path))
        for aside in self.asides:
            repairs.add(aside.kind, aside.id, aside.check_removed)
        repairs.add("images", "unused files", self.images.recover)


async def open_images(settings: Settings, clock: Clock) -> ImageComponents:
    """Open the image store on disk."""
    table = RegistryTable(settings.registries_file, settings.registries)
    registry = RegistryClient(lambda: {name: _host(host) for name, host in table.hosts().items()}, clock)
    return await blocking.call_to_end("images", _open, settings, registry, clock, deadline=None)


def _host(given: RegistryHost) -> Host:
    tls = Tls(given.ca, given.client_certificate, given.client_key, given.skip_verify)
    return Host(given.mirrors, given.plain_http, tls, given.username, given.password)


def _open(settings: Settings, registry: Registry, clock: Clock) -> ImageComponents:
    directory = settings.root / "storage"
    make_traversable(settings.root, settings.root_filesystems)
    content = ContentStore(settings.root / "images")
    index = settings.root / "images" / "index.json"
    layers = Layers(directory, content.path, clock=clock)
    snapshots = Snapshots(directory, layers)
    snapshots.load()
    deps = ImageDeps(
        content=content,
        index=ImageIndex(index),
        layers=layers,
        retainer=snapshots,
        registry=registry,
        clock=clock,
        settings=ImageSettings(
            platform=Platform(architecture(), "linux"),
            mountpoint=str(directory),
            pinned=frozenset(filter(None, (*settings.pinned_images, settings.pause_image))),
        ),
    )
    images = ImageManager(deps)
    containers, usage = ContainerImages(images, snapshots), WritableLayers(snapshots, directory, clock)
    return ImageComponents(images, snapshots, containers, usage, layers, tuple(_asides(settings.root, index)))


def _asides(root: Path, index: Path) -> Iterator[Aside]:
    """Find what this start and earlier ones have set aside."""
    for identity, name in quarantined_names(index).items():
        yield Aside("image", identity, quarantine_of(index), f"pull {name} again, then remove the file")
    for directory in (root, root / "images", root / "images" / "blobs", root / "storage"):
        for path in islice(directory.glob("*.aside-*"), _MOST_ASIDE):
            yield Aside("set aside", f"{path.parent.name}/{path.name}", path, "remove it, or put it where it belongs")
