"""Volumes: owns all below `ROOT/pods`: volumes and their content, mounts for containers, and their removal.

The pod worker has a pod's volumes set up and taken down; the pod runtime asks for the mounts of a container and
for the places of termination logs and hosts files (`PodDirs`).

Where to look: `manager.py` first; a module per kind that the node itself provides (`empty_dir.py`, `local.py`, …);
`sources.py` for what is behind a claim; `remote.py` for volumes that others answer for, `csi/` for their drivers.
"""

from pykubelet.kubelet.actuate.volumes.decide import only_shows_objects, referenced_objects
from pykubelet.kubelet.actuate.volumes.manager import VolumeManager
from pykubelet.kubelet.actuate.volumes.pod_dirs import PodDirs
from pykubelet.kubelet.actuate.volumes.types import VolumeConfig, VolumeContext, VolumeDeps

__all__ = [
    "PodDirs",
    "VolumeConfig",
    "VolumeContext",
    "VolumeDeps",
    "VolumeManager",
    "only_shows_objects",
    "referenced_objects",
]
