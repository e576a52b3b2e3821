"""Opens the image store, and builds what the rest of the server uses of it."""

from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.compose.container_images import ContainerImages
from pykubelet.criserver.compose.image_policy import ConfiguredPolicy
from pykubelet.criserver.compose.registries import ConfiguredRegistries
from pykubelet.criserver.config import Settings
from pykubelet.criserver.container import ContainerTable, ImageUsers
from pykubelet.criserver.directories import make_traversable
from pykubelet.criserver.images import ContentStore, ImageDeps, ImageIndex, ImageManager, ImageSettings
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.quarantine import QuarantinedFile, find_quarantined
from pykubelet.criserver.images.registry import RegistryClient
from pykubelet.criserver.images.signatures import Trust
from pykubelet.criserver.repairs import Repairs
from pykubelet.criserver.server.cri_calls.images import ImageCalls
from pykubelet.criserver.server.cri_calls.transfer import TransferCalls
from pykubelet.criserver.stats.writable_layers import WritableLayers
from pykubelet.criserver.storage import Layers, Snapshots
from pykubelet.criserver.storage.plan.unused import unused_root_filesystems
from pykubelet.criserver.storage.trash import Trash
from pykubelet.criserver.types import ProtectedIds
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.criserver.unpack.plan.memory import memory_of_worker
from pykubelet.criserver.unpack.room import OF_IMAGES
from pykubelet.linux import selinux
from pykubelet.linux.system import architecture, meminfo


class ImageComponents(Struct, frozen=True, kw_only=True):
    """The image components that the rest of the server uses."""

    images: ImageManager
    snapshots: Snapshots
    containers: ContainerImages
    usage: WritableLayers
    layers: Layers
    registries: ConfiguredRegistries
    policy: ConfiguredPolicy
    quarantined: tuple[QuarantinedFile, ...]

    @property
    def trash(self) -> Trash:
        """The files of removed containers and layers, until they are deleted."""
        return self.layers.trash

    def calls(self, clock: Clock) -> ImageCalls:
        """Return the calls of ImageService."""
        return ImageCalls(self.images, self.usage, clock=clock)

    def transfer_calls(self, containers: ContainerTable) -> TransferCalls:
        """Return the calls of ImageTransfer, a service of this project beside CRI."""
        users = ImageUsers(table=containers, find=self.containers.find)
        return TransferCalls(self.images, users.of)

    async def collect_interrupted(self) -> None:
        """Remove what interrupted pulls have left when it is too old, or space is short, until cancelled."""
        await self.images.interrupted.run(self.images.collect)

    def recover(self, wanted: Collection[str], protected: ProtectedIds, repairs: Repairs) -> None:
        """Schedule the removal of root file systems without a container and of blobs without an image."""
        for name in unused_root_filesystems(self.snapshots.containers(), wanted, protected):
            repairs.add("unused root file system", name, partial(self.snapshots.remove_rootfs, name))
        for place in () if protected.everything else self.snapshots.leftovers():
            repairs.add("unused root file system", place.name, partial(self.snapshots.remove_leftover, place))
        for path in self.layers.leftovers():
            name = f"{path.parent.name}/{path.name}"
            repairs.add("unused image layer", name, partial(self.layers.remove_leftover, path))
        for file in self.quarantined:
            repairs.add(file.kind, file.id, file.check_removed)
        repairs.add("images", "unused files", self.images.recover)


async def open_images(
    settings: Settings, clock: Clock, on_pulled: Callable[[Bytes, Seconds], None] | None = None
) -> ImageComponents:
    """Open the image store on disk. ``on_pulled`` gets the bytes that each pull has fetched, and its duration."""
    registries = ConfiguredRegistries(settings, clock)
    return await blocking.call_to_end("images", _open, settings, registries, clock, on_pulled, deadline=None)


def _open(
    settings: Settings,
    registries: ConfiguredRegistries,
    clock: Clock,
    on_pulled: Callable[[Bytes, Seconds], None] | None,
) -> ImageComponents:
    directory = settings.root / "storage"
    make_traversable(settings.root, settings.root_filesystems)
    content = ContentStore(settings.root / "images")
    index_file = settings.root / "images" / "index.json"
    index = ImageIndex(index_file)
    label = selinux.container_labels().layers if settings.enable_selinux else ""
    memory = memory_of_worker(meminfo().total)
    limits = Limits(reserve=OF_IMAGES.share, reserve_most=OF_IMAGES.most, memory_alone=memory)
    layers = Layers(root=directory, blob=content.path, clock=clock, label=label, limits=limits)
    snapshots = Snapshots(directory, layers)
    snapshots.load()
    policy = ConfiguredPolicy(settings.image_policy_file)
    trust = Trust(policy.rule_for)
    deps = ImageDeps(
        content=content,
        index=index,
        layers=layers,
        retainer=snapshots,
        registry=RegistryClient(
            hosts=registries.hosts,
            directories=registries.directories,
            bandwidth=registries.bandwidth,
            clock=clock,
        ),
        clock=clock,
        on_pulled=on_pulled,
        settings=ImageSettings(
            platform=Platform(architecture(), "linux"),
            mountpoint=str(directory),
            pinned=frozenset(filter(None, (*settings.pinned_images, settings.pause_image))),
            trust=trust,
        ),
    )
    images = ImageManager(deps)
    return ImageComponents(
        images=images,
        snapshots=snapshots,
        containers=ContainerImages(images=images, snapshots=snapshots, trust=trust),
        usage=WritableLayers(snapshots=snapshots, trash=layers.trash, directory=directory, clock=clock),
        layers=layers,
        registries=registries,
        policy=policy,
        quarantined=tuple(find_quarantined(settings.root, index_file, (*content.unusable, *index.unusable))),
    )
