"""Volumes: owns all below `ROOT/pods`: volumes and their content, mounts for containers, and their removal.

The pod worker has a pod's volumes set up and taken down; the pod runtime asks for the mounts of a container and
for the places of termination logs and hosts files (`PodDirs`).
"""

from pykubelet.kubelet.actuate.volumes.decide import referenced_objects
from pykubelet.kubelet.actuate.volumes.manager import VolumeManager
from pykubelet.kubelet.actuate.volumes.pod_dirs import PodDirs
from pykubelet.kubelet.actuate.volumes.types import VolumeConfig, VolumeContext, VolumeDeps

__all__ = ["PodDirs", "VolumeConfig", "VolumeContext", "VolumeDeps", "VolumeManager", "referenced_objects"]
