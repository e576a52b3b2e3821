"""Interfaces to the API server that the stage uses in a cluster."""

from collections.abc import Iterable
from typing import Protocol

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.images.image_interfaces import ServiceAccounts
from pykubelet.kubelet.actuate.volumes.volume_interfaces import ClaimReader, CsiObjects
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.models.core_v1 import (
    ClusterTrustBundleProjection,
    Pod,
    Service,
    ServiceAccountTokenProjection,
)


class ActuatorMetrics(Protocol):
    """The metrics of the stage."""

    @property
    def operations(self) -> WorkMeter:
        """The meter of cgroup, sandbox and volume operations."""

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """Record an image pull: its duration without waiting for a slot, and the image's size."""

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None:
        """Count a request for an image; None: there was an error before that was known."""

    def credential_plugin(self, plugin: str, seconds: Seconds, failed: bool) -> None:
        """Record a run of a credential provider plugin."""

    def credential_config(self, config_hash: str) -> None:
        """Set the hash (``sha256:HEX``) of the configuration of credential provider plugins."""

    def pull_check(self, result: str) -> None:
        """Count a check whether a pod may use a present image, by its result."""

    def pull_records(self, intents: int, records: int) -> None:
        """Set the numbers of intents to pull images, and of records of pulled images."""

    def image_collected(self, reason: str) -> None:
        """Count a removed image by its reason, ``space`` or ``age``."""

    def runtime_trash(self, size: Bytes) -> None:
        """Set the bytes of removed containers and images that the runtime server has not deleted yet."""

    def csi_operation(self, driver: str, method: str, code: str, seconds: Seconds) -> None:
        """Record a call to a CSI driver; ``code`` is the gRPC code's readable name."""


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
