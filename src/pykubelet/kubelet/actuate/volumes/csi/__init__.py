"""CSI: volumes of storage drivers that run on the node as pods and serve the Container Storage Interface.

The volume manager calls `CsiVolumes` for the volumes of pods. The package is loaded only with an API server, which has
the objects about drivers. It may import what ``volumes`` may, and gRPC. Start reading in `csi_manager.py` (which
volumes are in use, and by which pods); `csi_mounter.py` stages and publishes them, `driver_registry.py` watches the
registration sockets, `csi_layout.py` has the paths and records on disk, `plan/csi_rules.py` the rules.
"""

from pykubelet.kubelet.actuate.volumes.csi.csi_assembly import CsiContext, CsiParts, build_csi
from pykubelet.kubelet.actuate.volumes.csi.csi_layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.csi_manager import CsiDeps, CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiConfig, CsiEvents, CsiVolume
from pykubelet.kubelet.actuate.volumes.csi.driver_registry import DriverRegistry

__all__ = [
    "CsiConfig",
    "CsiContext",
    "CsiDeps",
    "CsiEvents",
    "CsiLayout",
    "CsiParts",
    "CsiVolume",
    "CsiVolumes",
    "DriverRegistry",
    "build_csi",
]
