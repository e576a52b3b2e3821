"""What the image manager needs from others."""

from typing import Protocol

from pykubelet.models.core_v1 import Secret
from pykubelet.pb import runtime_v1_pb2 as pb


class ImageService(Protocol):
    """CRI's ImageService, as `CriClient` offers it; errors are those of `actuate.cri.errors`."""

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """The image; None if the runtime does not have it."""

    async def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Pull it; returns the reference to make containers from."""


class Secrets(Protocol):
    """Where pull secrets come from: the API server or the manifest directory."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """The secret; NotFound if there is none."""
