"""local: a directory or device of this node behind a PersistentVolume; bind-mounted in the pod's directory.

The directory has to exist; nothing of it is removed with the pod. With `volumeMode: Block` containers get the device
itself, else its file system, which `mount/local_devices.py` has mounted.
"""

import os
import stat
from functools import partial
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Conflict, Invalid, Transient
from pykubelet.base.files.deep_path import real_path
from pykubelet.base.files.path_length import check_length
from pykubelet.base.files.safe_path import proc_path
from pykubelet.kubelet.actuate.volumes.ownership import ChangeProgress, give_to_group
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, VolumeAttributes, Work
from pykubelet.linux.filesystems import mountinfo, mounts
from pykubelet.linux.filesystems.mountinfo import is_mount_point, mounts_of_directory

_DIRECTORY_MODE: Final = 0o750


class LocalVolume:
    """Plugin for local volumes."""

    name = "kubernetes.io/local-volume"
    attributes = VolumeAttributes()

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.source
        assert source is not None and source.pv is not None and source.pv.spec.local is not None
        path = source.pv.spec.local.path
        if not path.startswith("/"):
            raise Invalid(f"PersistentVolume {source.name}: spec.local.path {path!r} is not absolute")
        if ".." in path.split("/"):
            raise Invalid(f"invalid path: {path}: must not contain '..'")
        check_length(path, f"PersistentVolume {source.name}: spec.local.path")
        if source.block:
            return Work(lambda: _check_device(path), once=True)
        security = request.pod.spec.security_context
        policy = security.fs_group_change_policy if security else ""
        change = None
        if request.fs_group is not None and not source.read_only:
            change = partial(_give_to_group, request, path, request.fs_group, policy)
        # Not looked at again: the file system that is mounted may hang.
        return Work(lambda: _show(request, path, read_only=source.read_only), first=change, once=True)


def _check_device(path: str) -> None:
    if not stat.S_ISBLK(Path(path).stat().st_mode):
        raise Conflict(f"{path} is not a block device")


def _give_to_group(request: SetUpRequest, link: str, group: int, policy: str, *, progress: ChangeProgress) -> None:
    """Change the group for the first pod that uses the volume; another group of a later pod is a warning."""
    if is_mount_point(request.path):
        return
    path = _content(request, link)
    pods = os.path.realpath(request.path.parents[3])  # the volume is in pods/UID/volumes/PLUGIN
    if any(Path(mount.path).is_relative_to(pods) for mount in mounts_of_directory(mountinfo.mounts(), path)):
        owner = Path(path).stat().st_gid
        if owner != group and request.source is not None:
            progress.warning = (
                f"The requested fsGroup is {group}, but the volume {request.source.name} has GID {owner}. "
                "The volume may not be shareable."
            )
        return
    # What is mounted below the directory is not in the pod, and not changed.
    with mounts.detached_bind(path) as shown:
        give_to_group(f"{proc_path(shown)}/.", group, policy, progress=progress)


def _show(request: SetUpRequest, link: str, *, read_only: bool) -> None:
    if not is_mount_point(request.path):
        path = _content(request, link)
        request.path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        mounts.bind(path, str(request.path), read_only=read_only)


def _content(request: SetUpRequest, link: str) -> str:
    """Return the directory with the volume's files: a device's file system is mounted elsewhere."""
    # The path itself may be a link of the administrator; below it no link is followed.
    path = real_path(link)
    mode = Path(path).stat().st_mode
    if stat.S_ISBLK(mode) and request.device is not None:
        if not is_mount_point(request.device):
            raise Transient(f"device {link} is not mounted at {request.device} (yet)")
        return str(request.device)
    if not stat.S_ISDIR(mode):
        raise Conflict(f"{path}: only directory and block device are supported")
    return path
