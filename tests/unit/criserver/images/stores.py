"""The image stores on a temporary directory, with a registry that is given."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import Transient
from pykubelet.base.image_reference import Reference
from pykubelet.criserver.images import (
    AuthConfig,
    ContentStore,
    ImageDeps,
    ImageIndex,
    ImageManager,
    ImageSettings,
    Platform,
)
from pykubelet.criserver.images.image_interfaces import Registry, Repository
from pykubelet.criserver.images.image_types import ImageRecord, OnProgress, ignore_progress
from pykubelet.criserver.storage import Layers, Snapshots
from pykubelet.linux.system import architecture
from pykubelet.testing.clock import VirtualClock


class NoRegistry:
    """For tests that must not pull."""

    def open(self, reference: Reference, auth: AuthConfig | None) -> AbstractAsyncContextManager[Repository]:
        raise Transient("there is no registry in this test")


@dataclass(frozen=True, slots=True)
class Stores:
    """All of them."""

    content: ContentStore
    layers: Layers
    snapshots: Snapshots
    images: ImageManager
    clock: VirtualClock


async def import_file(
    stores: Stores, path: Path, *tags: str, on_progress: OnProgress = ignore_progress
) -> list[ImageRecord]:
    """Import an archive that lies in a file."""
    with path.open("rb") as file:
        return list(await stores.images.import_archive(file, str(path), tags, on_progress))


def open_stores(root: Path, registry: Registry | None = None, pinned: frozenset[str] = frozenset()) -> Stores:
    """Open the stores on a directory, as the server does when it starts."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    clock = VirtualClock()
    content = ContentStore(root / "images")
    layers = Layers(root=root / "storage", blob=content.path, clock=clock)
    snapshots = Snapshots(root / "storage", layers)
    snapshots.load()
    deps = ImageDeps(
        content=content,
        index=ImageIndex(root / "images" / "index.json"),
        layers=layers,
        retainer=snapshots,
        registry=registry or NoRegistry(),
        clock=clock,
        settings=ImageSettings(platform=Platform(architecture(), "linux"), mountpoint=str(root), pinned=pinned),
    )
    return Stores(content, layers, snapshots, ImageManager(deps), clock)
