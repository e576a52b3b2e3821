"""Takes down what a pod has on this node: first the mounts, then the directories. All of it blocks and may be repeated.

Works from the disk and the kernel's mount table alone, so it also clears what an agent that was killed left.
"""

import logging
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.pod_dirs import PodDirs
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux import mounts
from pykubelet.linux.removal import remove_tree

_log = logging.getLogger(__name__)

_SUB_PATHS: Final = "volume-subpaths"
_VOLUME_DIRECTORIES: Final = (_SUB_PATHS, "volumes", "volume-devices", "volumeDevices")


def unmount_sub_paths(dirs: PodDirs, uid: PodUID) -> None:
    """Unmount parts of volumes, which would hold up whoever unmounts the volumes. Errors as below."""
    _unmount(dirs.pod(uid) / _SUB_PATHS)


def remove_volumes(dirs: PodDirs, uid: PodUID) -> None:
    """Unmount all that the pod has here and delete its volumes.

    Raises Conflict if something stays mounted, other base errors, or OSError. Data behind mounts is never touched.
    """
    pod = dirs.pod(uid)
    _unmount(pod)
    for name in _VOLUME_DIRECTORIES:
        remove_tree(pod / name)


def remove_pod(dirs: PodDirs, uid: PodUID) -> None:
    """Remove all the pod has here: volumes, termination logs, its hosts file. Errors as above."""
    pod = dirs.pod(uid)
    _unmount(pod)
    remove_tree(pod)


def _unmount(directory: Path) -> None:
    """Unmount all that is mounted in the directory; what is busy is detached, which is logged."""
    try:
        mounts.unmount_all_under(str(directory))
    except Transient as error:
        _log.warning("a mount is busy, detaching it", extra={"path": str(directory), "error": str(error)})
        mounts.unmount_all_under(str(directory), lazy=True)
