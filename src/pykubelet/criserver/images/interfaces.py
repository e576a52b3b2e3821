"""What images need of others."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pykubelet.base.units import Bytes
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import Reference
from pykubelet.criserver.images.types import AuthConfig, Layer


class LayerStore(Protocol):
    """Where layers are unpacked to."""

    async def ensure(self, stack: Sequence[Layer]) -> object:
        """Unpack the topmost layer of the stack. Invalid: it is bad; Transient: the machine."""
        ...

    def pinned(self, chain_ids: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Within, these layers are not removed."""
        ...

    async def sync(self, chain_ids: Iterable[str]) -> None:
        """Make them durable."""
        ...

    def used(self) -> tuple[Bytes, int]:
        """Bytes and inodes of all of them."""
        ...


class Retainer(Protocol):
    """Who knows which layers containers use."""

    async def retain(self, chain_ids: Collection[str]) -> None:
        """Keep these, and those of containers; remove the others, now and whenever a container goes."""
        ...


class Repository(Protocol):
    """One repository of a registry, for the time of one pull."""

    async def manifest(self, target: str) -> tuple[bytes, str]:
        """A manifest or an index by tag or digest, and its media type. NotFound, Invalid, Permanent, Transient."""
        ...

    async def blob(self, blob: Descriptor, sink: "BlobSink", on_bytes: Callable[[int], None]) -> None:
        """Write a blob into the sink, from its offset on, and commit it; ``on_bytes`` is told how many are here."""
        ...


class BlobSink(Protocol):
    """Where a blob goes; blocking."""

    offset: int

    def restart(self) -> None:
        """Begin anew."""
        ...

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append; Invalid when it grows beyond its size."""
        ...

    def commit(self) -> None:
        """Check digest and size and keep the blob. BadBlob: it is another one, and dropped."""
        ...


class Registry(Protocol):
    """How to reach registries."""

    def open(self, reference: Reference, auth: AuthConfig | None) -> AbstractAsyncContextManager[Repository]:
        """The repository of a reference."""
        ...
