"""Where a volume of a pod comes from, once its claim (if it has one) is looked up."""

from dataclasses import dataclass
from typing import Final

from pykubelet.models.core_v1 import PersistentVolume, Volume

CSI: Final = "csi"
LOCAL: Final = "local"
NFS: Final = "nfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One volume of one pod."""

    kind: str
    """The field that says what it is: of the volume, or of the PersistentVolume (`config_map`, `csi`, `local`, …)."""
    name: str
    """Its directory's: that in the pod's spec, or the PersistentVolume's."""
    volume: Volume
    """The volume in the pod's spec; for a claim one made of the PersistentVolume."""
    pv: PersistentVolume | None = None
    claim: str = ""
    """`NAMESPACE/NAME` of the claim; empty if there is none."""
    read_only: bool = False
    """The claim is mounted read-only by all of the pod's containers."""
    block: bool = False
    """A device, no file system."""
    migrated: bool = False
    """It is not of a CSI driver by its own words, but is left to one."""
