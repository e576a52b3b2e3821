"""Interfaces that the image manager uses."""

from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import Secret
from pykubelet.pb import runtime_v1_pb2 as pb


class ImageService(Protocol):
    """Calls of CRI's ImageService (`CriClient`); errors are those of `actuate.cri.errors`."""

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """Read an image; None if the runtime does not have it."""

    async def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Pull an image; return the reference to create containers from."""


class ImageMetrics(Protocol):
    """Metrics of image pulls."""

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """Record an image pull: its duration without waiting for a slot, and the image's size."""


class Secrets(Protocol):
    """Reads pull secrets, from the API server or the manifest directory."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return a secret. Raises NotFound."""
