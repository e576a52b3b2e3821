"""The interfaces that the image manager needs: layer store, retention of layers, and registries."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pykubelet.base.image_reference import Reference
from pykubelet.base.units import Bytes
from pykubelet.criserver.images.image_types import AuthConfig, Layer
from pykubelet.criserver.images.manifests import Descriptor


class LayerStore(Protocol):
    """The store of unpacked layers."""

    async def ensure(self, stack: Sequence[Layer]) -> object:
        """Unpack the topmost layer of the stack.

        Raises NotFound if the blob of a layer that this needs is not in the store, Invalid for a bad layer, Transient
        for other problems.
        """
        ...

    def pinned(self, chain_ids: Sequence[str]) -> AbstractAsyncContextManager[None]:
        """Keep these layers from being removed while the context is open."""
        ...

    async def sync(self, chain_ids: Iterable[str]) -> None:
        """Write these layers to the disk."""
        ...

    def used(self) -> tuple[Bytes, int]:
        """The bytes and inodes of all layers."""
        ...


class Retainer(Protocol):
    """The component that knows which layers the containers use."""

    async def retain(self, chain_ids: Collection[str]) -> None:
        """Keep these layers and those of containers; remove the others, now and whenever a container is removed."""
        ...

    async def make_room(self, *, always: bool) -> None:
        """If space is short, or ``always``, wait a limited time until what was removed is deleted."""
        ...

    def unused_bytes(self, chain_ids: Collection[str]) -> Bytes:
        """The bytes of those of these layers that no container uses."""
        ...


class Repository(Protocol):
    """A repository of a registry, for the time of one pull."""

    async def manifest(self, target: str, announced: str = "") -> tuple[bytes, str]:
        """Fetch a manifest or an index by tag or digest; returns it with its media type.

        Raises NotFound, Invalid, Permanent or Transient.
        """
        ...

    async def resolve(self, target: str) -> str:
        """Ask for the digest of a tag or digest without its content; empty where the registry does not tell it."""
        ...

    async def referrers(self, digest: str) -> tuple[bytes, str]:
        """Fetch the index of the manifests that refer to a digest; returns it with its media type.

        Raises NotFound if nothing refers to it, and the other errors of ``manifest``.
        """
        ...

    async def blob(self, blob: Descriptor, sink: "BlobSink", on_bytes: Callable[[int], None]) -> None:
        """Download a blob into the sink, from its offset on, and commit it; ``on_bytes`` gets the size so far."""
        ...


class BlobSink(Protocol):
    """The target of a blob download. Its methods block."""

    offset: int

    def restart(self) -> None:
        """Drop the partial content and start from offset 0."""
        ...

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append data. Raises Invalid if the blob exceeds its size."""
        ...

    def commit(self) -> None:
        """Check digest and size, and store the blob. Raises BadBlob, and drops the data, if it does not match."""
        ...


class Registry(Protocol):
    """Access to registries."""

    def open(self, reference: Reference, auth: AuthConfig | None) -> AbstractAsyncContextManager[Repository]:
        """Open the repository of a reference."""
        ...
