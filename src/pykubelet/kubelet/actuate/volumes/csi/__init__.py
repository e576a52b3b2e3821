"""CSI: volumes of storage drivers that run on the node as pods and serve the Container Storage Interface.

The volume manager calls `CsiVolumes` for pods' volumes; only with an API server, which has the objects about them.
"""

from pykubelet.kubelet.actuate.volumes.csi.assembly import CsiContext, CsiParts, build_csi
from pykubelet.kubelet.actuate.volumes.csi.layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.manager import CsiDeps, CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.ports import DriverReports
from pykubelet.kubelet.actuate.volumes.csi.registry import DriverRegistry
from pykubelet.kubelet.actuate.volumes.csi.types import CsiConfig, CsiVolume

__all__ = [
    "CsiConfig",
    "CsiContext",
    "CsiDeps",
    "CsiLayout",
    "CsiParts",
    "CsiVolume",
    "CsiVolumes",
    "DriverRegistry",
    "DriverReports",
    "build_csi",
]
