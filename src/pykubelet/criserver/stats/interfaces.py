"""What is needed to measure."""

from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.units import Bytes
from pykubelet.criserver.types import ContainerID


@dataclass(frozen=True, slots=True)
class LayerUsage:
    """What a container has written into its own layer, and where that lies."""

    mountpoint: str
    used: Bytes
    inodes: int


class Layers(Protocol):
    """The writable layers."""

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        """None when the container has none any more."""
        ...
