"""The interface to the writable layers that measuring needs."""

from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Bytes
from pykubelet.criserver.types import ContainerID


class LayerUsage(Struct, frozen=True):
    """The usage of a container's writable layer, and the mount point of its file system."""

    mountpoint: str
    used: Bytes
    inodes: int


class Layers(Protocol):
    """The writable layers of containers."""

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        """The usage of a container's layer; None if the layer does not exist any more."""
        ...
