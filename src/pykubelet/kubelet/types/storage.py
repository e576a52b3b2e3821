"""Values about storage drivers that the stages exchange."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from pykubelet.base.errors import Transient

MIGRATED_PLUGINS: Final = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
)
"""In-tree plugins whose volumes CSI drivers handle (KEP-625)."""


class AttachLimitExceeded(Transient):
    """A volume is not attached since the node has as many volumes of its driver as it can have (KEP-4876)."""


class DriverNodeInfo(Struct, frozen=True):
    """Properties of this node, as a CSI driver reports them."""

    node_id: str
    """The node's name in the storage system."""
    max_volumes: int = 0
    """Maximum number of the driver's volumes on the node; 0: no known limit."""
    topology: Mapping[str, str] = field(default_factory=dict)
    """Topology labels of the node."""


class VolumeSizes(Struct, frozen=True):
    """Capacity and usage of a volume of a storage system; None: unknown."""

    claim: str = ""
    """`NAMESPACE/NAME` of its PersistentVolumeClaim; empty: it has no claim."""
    capacity: int | None = None
    available: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None


class VolumesInUse(Struct, frozen=True):
    """Volumes that must not be detached from the node (`volumesInUse`), by their names in its status."""

    names: tuple[str, ...] = ()
    is_complete: bool = True
    """False: what an earlier agent has left could not be read yet, so that all are in use that it has reported."""
