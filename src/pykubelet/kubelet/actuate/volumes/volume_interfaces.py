"""Interfaces that the volume manager uses."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from pykubelet.kubelet.actuate.cri_messages.config_interfaces import ConfigReader
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
    """Reads current claims and PersistentVolumes from the API server. Raises NotFound, Transient."""

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """Read a PersistentVolumeClaim."""

    async def volume(self, name: str) -> PersistentVolume:
        """Read a PersistentVolume."""

    async def node_labels(self) -> Mapping[str, str]:
        """Labels of this node."""

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: dict[str, object]) -> PersistentVolumeClaim:
        """Patch a claim's status by a strategic merge patch. Raises Conflict if its resourceVersion is old."""


class CsiObjects(Protocol):
    """Objects of the API server for CSI volumes. All calls may wait for it and raise base errors."""

    async def driver(self, name: str) -> "CSIDriver | None":
        """The driver's CSIDriver object; None if it does not exist, since it is optional."""

    async def secret(self, namespace: str, name: str) -> Secret:
        """Read a Secret for a driver. Raises NotFound."""

    async def wait_attached(
        self, unique_name: str, attachment: str, limit: AbstractAsyncContextManager[object]
    ) -> None:
        """Wait until the node's status lists the volume as in use and attached.

        ``attachment``: name of its VolumeAttachment; ``limit`` raises TimeoutError. Raises Transient with the cause,
        AttachLimitExceeded if the node has as many volumes as it can have.
        """

    async def attachment_metadata(self, name: str) -> Mapping[str, str]:
        """Attachment metadata of the controller (VolumeAttachment status). Raises NotFound, Transient."""

    async def driver_tokens(self, pod: Pod, requests: "tuple[TokenRequest, ...]") -> str:
        """Tokens of the pod's service account as JSON, for a driver that requests them."""

    def touch(self, uids: frozenset[PodUID]) -> None:
        """Trigger a sync of these pods."""


class TokenSource(Protocol):
    """Cache of tokens and certificates from the API server for projected volumes; it renews them in time."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """The token for the audience, bound to the pod. Raises a base error if it is not available (yet)."""

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """The certificates of a clusterTrustBundle source as PEM. Raises a base error if not available (yet)."""

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """Key and certificates (PEM) of a podCertificate source. Raises a base error if not available (yet)."""


class VolumeImages(Protocol):
    """Pulls the images of image volumes (implemented by the image manager)."""

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """Pull the image if needed; return the runtime's reference to it. Raises `ImageError`."""


RecursiveReadOnly = Callable[[str | None], bool]
"""Whether the pod's runtime handler supports recursive read-only mounts."""
