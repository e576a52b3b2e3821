"""Tears down a pod's volumes and directory: first the mounts, then the directories. All functions block; repeatable.

Works only from the disk and the kernel's mount table, so it also cleans up after an agent that was killed.
"""

import logging
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.removal import remove_tree

_log = logging.getLogger(__name__)

_SUB_PATHS: Final = "volume-subpaths"
_VOLUME_DIRECTORIES: Final = (_SUB_PATHS, "volumes", "volume-devices", "volumeDevices")


def unmount_sub_paths(dirs: PodDirs, uid: PodUID) -> None:
    """Unmount the bind mounts of subPaths, which keep the volumes busy. Errors as in :func:`remove_volumes`."""
    _unmount(dirs.pod(uid) / _SUB_PATHS)


def remove_volumes(dirs: PodDirs, uid: PodUID) -> None:
    """Unmount everything below the pod's directory and delete its volumes.

    Raises Conflict if something remains mounted, other base errors, or OSError. Data behind mounts is never touched.
    """
    pod = dirs.pod(uid)
    _unmount(pod)
    for name in _VOLUME_DIRECTORIES:
        remove_tree(pod / name)


def remove_pod(dirs: PodDirs, uid: PodUID) -> None:
    """Remove the pod's directory: volumes, termination logs, hosts file. Errors as in :func:`remove_volumes`."""
    pod = dirs.pod(uid)
    _unmount(pod)
    remove_tree(pod)


def _unmount(directory: Path) -> None:
    """Unmount everything below the directory; a busy mount is logged and detached."""
    try:
        mounts.unmount_all_under(str(directory))
    except Transient as error:
        _log.warning("mount busy: detaching it", extra={"path": str(directory), "error": str(error)})
        mounts.unmount_all_under(str(directory), lazy=True)
