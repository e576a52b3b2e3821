"""What the stages tell each other of storage drivers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MIGRATED_PLUGINS: Final = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
)
"""Plugins whose volumes the node leaves to CSI drivers (KEP-625)."""


@dataclass(frozen=True, slots=True)
class DriverNodeInfo:
    """What a CSI driver says of this node."""

    node_id: str
    """The node's name in the storage system."""
    max_volumes: int = 0
    """How many of its volumes the node can have; 0: no limit is known."""
    topology: Mapping[str, str] = field(default_factory=dict)
    """Where the node is, as labels."""


@dataclass(frozen=True, slots=True)
class VolumeSizes:
    """How full a volume of a storage system is; None where nobody says."""

    claim: str = ""
    """`NAMESPACE/NAME` of the claim that it is behind; empty if there is none."""
    capacity: int | None = None
    available: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
