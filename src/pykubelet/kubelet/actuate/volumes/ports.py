"""What the volume manager needs from others."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from pykubelet.kubelet.actuate.criconfig.ports import ConfigReader
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import (
    ClusterTrustBundleProjection,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    ServiceAccountTokenProjection,
)

if TYPE_CHECKING:
    from pykubelet.models.storage_v1 import CSIDriver, TokenRequest  # not loaded without an API server

__all__ = ["ClaimReader", "ConfigReader", "CsiObjects", "RecursiveReadOnly", "TokenSource", "VolumeImages"]


class ClaimReader(Protocol):
    """Reads claims and volumes of the API server as they are now. Raises NotFound, Transient."""

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """A claim."""

    async def volume(self, name: str) -> PersistentVolume:
        """A volume."""

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: dict[str, object]) -> PersistentVolumeClaim:
        """Change a claim's status; ``patch`` is a strategic merge patch. Conflict if it names an old version."""


class CsiObjects(Protocol):
    """The API server. All may wait for it and raise base errors."""

    async def driver(self, name: str) -> "CSIDriver | None":
        """The driver's object; None if there is none, which it may do without."""

    async def secret(self, namespace: str, name: str) -> Secret:
        """A Secret for a driver, read when it is needed. NotFound."""

    async def wait_attached(self, unique_name: str, attachment: str) -> None:
        """Wait until the node's status says that the volume is in use and attached. Transient when that takes long."""

    async def attachment_metadata(self, name: str) -> Mapping[str, str]:
        """What the controller said when it attached the volume (VolumeAttachment). NotFound, Transient."""

    async def driver_tokens(self, pod: Pod, requests: "tuple[TokenRequest, ...]") -> str:
        """Tokens of the pod's service account as JSON, for a driver that asks for them."""

    def touch(self, uids: frozenset[PodUID]) -> None:
        """Have these pods looked at."""


class TokenSource(Protocol):
    """Hands out what an API server issues for projected volumes, from memory, renewing it in time by itself."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """The token for that audience, bound to the pod; a base error if there is none (yet)."""

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """The certificates of a clusterTrustBundle source as PEM; a base error if there are none (yet)."""

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """Key and certificates, in PEM, of that source of a projected volume; a base error if there are none (yet)."""


class VolumeImages(Protocol):
    """Makes the images of image volumes present; the image manager does."""

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """The runtime's reference to the image; `ImageError` if it cannot be had now."""


RecursiveReadOnly = Callable[[Pod], bool]
"""Whether the pod's runtime handler can mount recursively read-only."""
