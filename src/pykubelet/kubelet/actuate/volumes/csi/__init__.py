"""CSI: volumes of storage drivers that run on the node as pods and serve the Container Storage Interface.

The volume manager calls `CsiVolumes` for the volumes of pods. The package is loaded only with an API server, which has
the objects about drivers. It may import what ``volumes`` may, and gRPC.
Start reading in `manager.py` (stage and publish); `registry.py` watches the registration sockets, `layout.py`
has the paths and records on disk, `decide.py` the rules.
"""

from pykubelet.kubelet.actuate.volumes.csi.assembly import CsiContext, CsiParts, build_csi
from pykubelet.kubelet.actuate.volumes.csi.layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.manager import CsiDeps, CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.registry import DriverRegistry
from pykubelet.kubelet.actuate.volumes.csi.types import CsiConfig, CsiEvents, CsiVolume

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
