"""What the whole stage needs of a cluster, if there is one."""

from collections.abc import Iterable
from typing import Protocol

from pykubelet.kubelet.actuate.volumes.ports import ClaimReader, CsiObjects
from pykubelet.models.core_v1 import ClusterTrustBundleProjection, Pod, Service, ServiceAccountTokenProjection


class StorageInputs(ClaimReader, CsiObjects, Protocol):
    """What persistent volumes need."""


class ClusterInputs(Protocol):
    """What pods need of the API server beside ConfigMaps and Secrets (desired/objects)."""

    @property
    def storage(self) -> StorageInputs:
        """Claims, volumes and drivers' objects."""

    async def ready(self, pod: Pod) -> None:
        """Wait until all that the pod refers to has been read; raises base errors when that takes too long."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """Service account token for a projected volume."""

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """Certificates for a projected volume."""

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """Key and certificates for a projected volume."""

    def services(self) -> Iterable[Service]:
        """All services of the cluster."""

    def runtime_handler(self, name: str) -> str:
        """The handler of a RuntimeClass; NotFound if there is no such class."""
