"""Composes the image rooms, and fits them to those who need images: the container manager, stats and the calls.

Part of the composition root; no room imports it.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.base.units import Bytes
from pykubelet.criserver.config import Settings
from pykubelet.criserver.container.ports import ImageFacts
from pykubelet.criserver.images import ContentStore, ImageDeps, ImageIndex, ImageManager
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.ports import Registry
from pykubelet.criserver.images.types import ImageRecord
from pykubelet.criserver.server.images import ImageCalls
from pykubelet.criserver.spec import ImageDefaults
from pykubelet.criserver.stats.ports import LayerUsage
from pykubelet.criserver.storage import Layers, Snapshots
from pykubelet.criserver.types import ContainerID
from pykubelet.linux.system import architecture


class ContainerImages:
    """A ``container.ports.Images``."""

    def __init__(self, images: ImageManager, snapshots: Snapshots) -> None:
        self._images = images
        self._snapshots = snapshots

    def find(self, reference: str) -> ImageFacts | None:
        """An image by name, digest or id."""
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

    async def prepare(self, image_id: str, container: ContainerID) -> Path:
        """Mount a root file system made of the image. NotFound: it was removed a moment ago."""
        return await self._snapshots.prepare_rootfs(self._record(image_id), container)

    async def release(self, container: ContainerID) -> None:
        """Unmount and remove it."""
        await self._snapshots.remove_rootfs(container)

    def _record(self, image_id: str) -> ImageRecord:
        record = self._images.status(image_id)
        if record is None:
            raise NotFound(f"image {image_id} was removed meanwhile; pull it again")
        return record


class WritableLayers:
    """A ``stats.ports.Layers``."""

    def __init__(self, snapshots: Snapshots, folder: Path) -> None:
        self._snapshots = snapshots
        self._folder = str(folder)

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        """What one container has written."""
        try:
            found = await self._snapshots.usage(container)
        except NotFound:
            return None
        return LayerUsage(self._folder, found.bytes, found.inodes)

    async def total(self) -> LayerUsage:
        """What all have written."""
        used, inodes = Bytes(0), 0
        for container in self._snapshots.containers():
            found = await self.usage(ContainerID(container))
            if found is not None:
                used, inodes = Bytes(used + found.used), inodes + found.inodes
        return LayerUsage(self._folder, used, inodes)


@dataclass(frozen=True, slots=True)
class ImageRooms:
    """What the image rooms give to the others."""

    images: ImageManager
    snapshots: Snapshots
    containers: ContainerImages
    layers: WritableLayers

    def calls(self) -> ImageCalls:
        """The calls of ImageService."""
        return ImageCalls(self.images, self.layers)

    async def recover(self, wanted: Collection[str]) -> None:
        """Remove root file systems that no container has, and blobs that no image has."""
        await self.snapshots.recover(wanted)
        await self.images.recover()


async def open_images(settings: Settings, registry: Registry, clock: Clock) -> ImageRooms:
    """Open what is on the disk."""
    return await asyncio.to_thread(_open, settings, registry, clock)


def _open(settings: Settings, registry: Registry, clock: Clock) -> ImageRooms:
    folder = settings.root / "storage"
    content = ContentStore(settings.root / "images")
    layers = Layers(folder, content.path)
    snapshots = Snapshots(folder, layers)
    snapshots.load()
    deps = ImageDeps(
        content=content,
        index=ImageIndex(settings.root / "images" / "index.json"),
        layers=layers,
        retainer=snapshots,
        registry=registry,
        platform=Platform(architecture(), "linux"),
        clock=clock,
    )
    images = ImageManager(deps)
    return ImageRooms(images, snapshots, ContainerImages(images, snapshots), WritableLayers(snapshots, folder))
