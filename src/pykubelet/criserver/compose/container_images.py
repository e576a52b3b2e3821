"""The images of the image store as containers and sandboxes use them: facts of an image, and root file systems."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.images.image_manager import ImageManager
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.images.signatures import Trust
from pykubelet.criserver.spec import ImageDefaults
from pykubelet.criserver.storage import Snapshots, VolumeRequest
from pykubelet.criserver.types import ContainerID, UserNamespace


class ContainerImages:
    """Adapter of the image store: ``Images`` of ``container`` and ``PauseImages`` of ``sandbox``."""

    def __init__(self, *, images: ImageManager, snapshots: Snapshots, trust: Trust) -> None:
        self._images = images
        self._snapshots = snapshots
        self._trust = trust
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
            artifact_type=record.artifact_type,
            checkpoint=record.checkpoint,
        )

    async def ensure(self, reference: str) -> ImageFacts:
        """Return an image, pulling it if it is not present; concurrent callers wait for the same pull."""
        async with self._pulling:
            found = self.find(reference)
            if found is None:
                await self._images.pull(reference)
                found = self.find(reference)
        assert found is not None, "it has just been pulled"
        await self.check_use(found.id, reference)
        return found

    async def pull(self, reference: str) -> None:
        """Pull an image with the credentials of the server's configuration, if any."""
        await self._images.pull(reference)

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
        """Mount a root file system made of the image. NotFound: the image was just removed."""
        return await self._snapshots.prepare_rootfs(self._record(image_id), container, user, label)

    async def check_use(self, image_id: str, name: str) -> None:
        """Check that the image policy permits the use of an image under the name by which it was requested."""
        await self._trust.check_use(self._record(image_id), name)

    async def make_volumes(
        self, image: ImageFacts, container: ContainerID, *, covered: frozenset[str], user: UserNamespace | None
    ) -> Mapping[str, str]:
        """Create the volumes that the image declares; their directories on the host by path in the container."""
        if not image.volumes:
            return {}
        return await self._snapshots.make_volumes(container, VolumeRequest(image.volumes, covered, user))

    async def release(self, container: ContainerID) -> None:
        """Unmount a container's root file system, and leave its files to be deleted in the background."""
        await self._snapshots.remove_rootfs(container)

    async def make_room(self) -> None:
        """If space is short, wait a limited time until the files of released root file systems are deleted."""
        await self._snapshots.make_room()

    def _record(self, image_id: str) -> ImageRecord:
        record = self._images.status(image_id)
        if record is None:
            raise NotFound(f"image {image_id} was removed meanwhile; pull it again")
        return record
