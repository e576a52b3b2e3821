"""Typed descriptions of API resources, from which request paths are built."""

from typing import Final, Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct

from pykubelet.models import (
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    node_v1,
    storage_v1,
)
from pykubelet.models.scalars import KubeStruct

T = TypeVar("T", bound=KubeStruct)
U = TypeVar("U", bound=KubeStruct)


class Target(Struct, Generic[T], frozen=True):
    """A request path with the type of the object there."""

    path: str
    kind: type[T]
    label: str
    """The target in messages: ``pods default/web``."""

    def typed(self, kind: type[U]) -> "Target[U]":
        """Return the same path with another object type, as needed for subresources."""
        return Target(self.path, kind, self.label)


class Resource(Struct, Generic[T], frozen=True):
    """A resource of the API."""

    prefix: str
    """``/api/v1`` or ``/apis/GROUP/VERSION``."""
    plural: str
    kind: type[T]

    def all(self, namespace: str = "") -> Target[T]:
        """Return the collection; of one namespace if given."""
        return Target(self._path(namespace), self.kind, f"{self.plural} {namespace}".strip())

    def at(self, namespace: str, name: str, subresource: str = "") -> Target[T]:
        """Return one object; ``namespace`` is empty for cluster-scoped resources."""
        parts = [self._path(namespace), quote(name, safe="")]
        if subresource:
            parts.append(subresource)
        label = f"{self.plural}/{subresource}" if subresource else self.plural
        return Target("/".join(parts), self.kind, f"{label} {namespace}/{name}".replace(" /", " "))

    def _path(self, namespace: str) -> str:
        inner = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.prefix}{inner}/{self.plural}"


_CORE: Final = "/api/v1"
PODS: Final = Resource(_CORE, "pods", core_v1.Pod)
NODES: Final = Resource(_CORE, "nodes", core_v1.Node)
EVENTS: Final = Resource(_CORE, "events", core_v1.Event)
CONFIG_MAPS: Final = Resource(_CORE, "configmaps", core_v1.ConfigMap)
SECRETS: Final = Resource(_CORE, "secrets", core_v1.Secret)
SERVICES: Final = Resource(_CORE, "services", core_v1.Service)
SERVICE_ACCOUNTS: Final = Resource(_CORE, "serviceaccounts", core_v1.ServiceAccount)
PERSISTENT_VOLUMES: Final = Resource(_CORE, "persistentvolumes", core_v1.PersistentVolume)
PERSISTENT_VOLUME_CLAIMS: Final = Resource(_CORE, "persistentvolumeclaims", core_v1.PersistentVolumeClaim)
LEASES: Final = Resource("/apis/coordination.k8s.io/v1", "leases", coordination_v1.Lease)
RUNTIME_CLASSES: Final = Resource("/apis/node.k8s.io/v1", "runtimeclasses", node_v1.RuntimeClass)
CSI_NODES: Final = Resource("/apis/storage.k8s.io/v1", "csinodes", storage_v1.CSINode)
CSI_DRIVERS: Final = Resource("/apis/storage.k8s.io/v1", "csidrivers", storage_v1.CSIDriver)
VOLUME_ATTACHMENTS: Final = Resource("/apis/storage.k8s.io/v1", "volumeattachments", storage_v1.VolumeAttachment)
SIGNING_REQUESTS: Final = Resource(
    "/apis/certificates.k8s.io/v1", "certificatesigningrequests", certificates_v1.CertificateSigningRequest
)
CLUSTER_TRUST_BUNDLES: Final = Resource(
    "/apis/certificates.k8s.io/v1beta1", "clustertrustbundles", certificates_v1beta1.ClusterTrustBundle
)
POD_CERTIFICATE_REQUESTS: Final = Resource(
    "/apis/certificates.k8s.io/v1beta1", "podcertificaterequests", certificates_v1beta1.PodCertificateRequest
)
TOKEN_REVIEWS: Final = Resource("/apis/authentication.k8s.io/v1", "tokenreviews", authentication_v1.TokenReview)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    "/apis/authorization.k8s.io/v1", "subjectaccessreviews", authorization_v1.SubjectAccessReview
)
