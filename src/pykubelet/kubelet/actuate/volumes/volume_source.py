"""Source of a pod's volume after its claim, if any, was looked up."""

from typing import Final

from msgspec import Struct

from pykubelet.models.core_v1 import PersistentVolume, Volume

CSI: Final = "csi"
LOCAL: Final = "local"
NFS: Final = "nfs"


class Source(Struct, frozen=True, kw_only=True):
    """Resolved source of one volume of one pod."""

    kind: str
    """The field that is set in the volume or the PersistentVolume (`config_map`, `csi`, `local`, …)."""
    name: str
    """Name of its directory: the name in the pod's spec, or of the PersistentVolume."""
    volume: Volume
    """The volume in the pod's spec; for a claim, a volume built from the PersistentVolume."""
    pv: PersistentVolume | None = None
    claim: str = ""
    """`NAMESPACE/NAME` of the claim; empty without a claim."""
    read_only: bool = False
    """Whether the pod's spec mounts the claim or the inline CSI volume read-only."""
    block: bool = False
    """Whether it is a block device without a file system (`volumeMode: Block`)."""
    migrated: bool = False
    """Whether it is a volume of a former in-tree plugin that a CSI driver serves (KEP-625)."""
