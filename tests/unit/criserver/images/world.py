"""An image manager that pulls for real and does not unpack."""

import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.images import (
    ContentStore,
    ImageDeps,
    ImageIndex,
    ImageManager,
    ImageRecord,
    ImageSettings,
    Layer,
    Platform,
)
from pykubelet.criserver.images.manifests import digest_of
from pykubelet.criserver.images.registry import HostConfig, HostDirectories, PullBandwidth, RegistryClient
from pykubelet.criserver.images.signatures import Rule, Trust, allow_all
from pykubelet.criserver.unpack.room import Reserve
from pykubelet.testing.clock import VirtualClock

NOTHING = Reserve()


class NoUnpacking:
    """A layer store for tests of the transfer alone; it needs no root."""

    async def ensure(self, stack: Sequence[Layer]) -> object:
        return stack

    @asynccontextmanager
    async def pinned(self, chain_ids: Sequence[str]) -> AsyncIterator[None]:
        yield

    async def sync(self, chain_ids: Iterable[str]) -> None:
        return

    def used(self) -> tuple[Bytes, int]:
        return Bytes(0), 0

    async def make_room(self, *, always: bool) -> None:
        return None

    async def retain(self, chain_ids: Collection[str]) -> None:
        return

    def unused_bytes(self, chain_ids: Collection[str]) -> Bytes:
        return Bytes(0)


class InstantClock(VirtualClock):
    """Sleeps are noted, not slept."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class World:
    """A manager on a directory that pulls from given hosts."""

    def __init__(
        self,
        root: Path,
        hosts: Mapping[str, HostConfig] | None = None,
        directories: Sequence[Path] = (),
        *,
        on_pulled: Callable[[Bytes, Seconds], None] | None = None,
        rule_for: Callable[[str], Rule] = allow_all,
        bandwidth: int = 0,
        spare: Reserve = NOTHING,
    ) -> None:
        self.clock = InstantClock()
        self.trust = Trust(rule_for)
        self.content = ContentStore(root / "images")
        found = HostDirectories(directories)
        self.bandwidth = PullBandwidth(bandwidth, self.clock)
        self.registry = RegistryClient(
            hosts=lambda: hosts or {}, directories=found, bandwidth=self.bandwidth, clock=self.clock
        )
        layers = NoUnpacking()
        self.images = ImageManager(
            ImageDeps(
                content=self.content,
                index=ImageIndex(root / "images" / "index.json"),
                layers=layers,
                retainer=layers,
                registry=self.registry,
                clock=self.clock,
                on_pulled=on_pulled,
                settings=ImageSettings(
                    platform=Platform("amd64", "linux"), mountpoint=str(root), trust=self.trust, spare=spare
                ),
            )
        )

    async def after_a_while(self) -> None:
        """Collect garbage two hours later, without another attempt in between."""
        await self.clock.advance(7200)
        await self.images.collect()

    def check(self, image: ImageRecord) -> None:
        """Everything of the image is in the store, whole, and nothing else."""
        assert self.content.digests() == image.blobs
        for blob in image.blobs:
            assert digest_of(self.content.path(blob).read_bytes()) == blob
        assert list((self.content.root / "ingest").iterdir()) == []


LAYERS = [random.Random(seed).randbytes(3_000_000 + seed) for seed in range(4)]
DIFFS = [digest_of(layer) for layer in LAYERS]
"""Of an image, the last one on top; no tars, so they are only fetched."""


def check(world: World, image: ImageRecord) -> None:
    world.check(image)
