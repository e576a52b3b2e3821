"""What the volume manager needs from others."""

from collections.abc import Callable
from typing import Protocol

from pykubelet.kubelet.actuate.criconfig.ports import ConfigReader
from pykubelet.models.core_v1 import Pod, ServiceAccountTokenProjection

__all__ = ["ConfigReader", "RecursiveReadOnly", "TokenSource", "VolumeImages"]


class TokenSource(Protocol):
    """Hands out tokens of the pod's service account, from memory, renewing them in time by itself."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """The token for that audience, bound to the pod; a base error if there is none (yet)."""


class VolumeImages(Protocol):
    """Makes the images of image volumes present; the image manager does."""

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """The runtime's reference to the image; `ImageError` if it cannot be had now."""


RecursiveReadOnly = Callable[[Pod], bool]
"""Whether the pod's runtime handler can mount recursively read-only."""
