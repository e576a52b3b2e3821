"""Volumes: sets up, mounts and tears down the volumes of pods. Owns everything below `ROOT/pods`.

The pod worker has a pod's volumes set up and torn down; the pod runtime gets the mounts of a container, and the paths
of termination logs and hosts files (`PodDirs`).

Imports of this stage: ``cri``, ``cri_messages``. The API server and the image manager are used through the protocols in
``volume_interfaces.py``. Start reading in `volume_manager.py`. There is one module for each kind of volume that the
node itself provides (`kinds/empty_dir.py`, `kinds/config_map.py`, `kinds/local.py`, …). `source_lookup.py` reads claims
and PersistentVolumes, `mount/remote_volumes.py` has the volumes of file servers and CSI drivers, `csi/` the CSI node
side.
"""

from pykubelet.kubelet.actuate.volumes.kinds.directories import SWAPPED_VOLUMES, memory_volumes_may_swap
from pykubelet.kubelet.actuate.volumes.plan.pod_volumes import failure_reason, only_shows_objects, referenced_objects
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_manager import VolumeManager
from pykubelet.kubelet.actuate.volumes.volume_types import VolumeConfig, VolumeContext, VolumeDeps

__all__ = [
    "SWAPPED_VOLUMES",
    "PodDirs",
    "VolumeConfig",
    "VolumeContext",
    "VolumeDeps",
    "VolumeManager",
    "failure_reason",
    "memory_volumes_may_swap",
    "only_shows_objects",
    "referenced_objects",
]
