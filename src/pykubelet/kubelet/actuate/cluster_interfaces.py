"""Interfaces to the API server that the stage uses in a cluster."""

from collections.abc import Iterable
from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.images.image_gc import GcMetrics
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics, ServiceAccounts
from pykubelet.kubelet.actuate.volumes.volume_interfaces import ClaimReader, CsiObjects
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.models.core_v1 import (
    ClusterTrustBundleProjection,
    Pod,
    Service,
    ServiceAccountTokenProjection,
)


class ImageRecorder(ImageMetrics, GcMetrics, Protocol):
    """The metrics of images."""


class CallRecorder(Protocol):
    """The metrics of calls."""

    def csi_operation(self, driver: str, method: str, code: str, seconds: Seconds) -> None:
        """Record a call to a CSI driver; ``code`` is the gRPC code's readable name."""


class ActuatorMetrics(Protocol):
    """The metrics of the stage."""

    @property
    def images(self) -> ImageRecorder:
        """The recorder of images."""

    @property
    def calls(self) -> CallRecorder:
        """The recorder of calls."""

    @property
    def operations(self) -> WorkMeter:
        """The meter of cgroup, sandbox and volume operations."""


class StorageInputs(ClaimReader, CsiObjects, Protocol):
    """Objects of the API server for PersistentVolumes."""


class ClusterInputs(Protocol):
    """Inputs of pods from the API server, besides ConfigMaps and Secrets (desired/objects)."""

    @property
    def storage(self) -> StorageInputs:
        """Claims, PersistentVolumes and objects about CSI drivers."""

    @property
    def accounts(self) -> ServiceAccounts:
        """Service accounts and their tokens, for credential provider plugins."""

    async def ready(self, pod: Pod) -> None:
        """Wait until all objects that the pod refers to have been read. Raises base errors on timeout."""

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """Service account token for a projected volume."""

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """Trust anchors (PEM) for a projected volume."""

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """Key and certificates (PEM) for a projected volume."""

    @property
    def services(self) -> Iterable[Service]:
        """All services of the cluster."""

    def runtime_handler(self, name: str) -> str:
        """Runtime handler of a RuntimeClass. Raises NotFound for an unknown class."""
