"""subPath: bind-mounts one file or directory of a volume, safe against changes by the pod.

The pod can replace path components at any moment (CVE-2021-25741), so the path is opened step by step with
`base.files.safe_path`, and the open descriptor is bind-mounted. The runtime then gets the path of that bind
mount, which no pod can reach.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.files.safe_path import close_quietly, mkdir_in_root, open_in_root, proc_path
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import is_mount_point

_DIRECTORY_MODE: Final = 0o750
_FILE_MODE: Final = 0o640


class SubPath(Struct, frozen=True):
    """Bind mount of a part of a volume."""

    volume: str
    """Root of the volume."""
    relative: str
    target: Path
    """Target of the bind mount."""


def bind_sub_path(sub: SubPath) -> None:
    """Bind-mount a part of a volume to the target; a missing part is created as a directory. Blocks; repeatable.

    A mount of an earlier run is kept if it has the same source, else replaced. Raises base errors and OSError.
    """
    source = _open(sub)
    try:
        info = os.fstat(source)
        if is_mount_point(sub.target):
            if os.path.samestat(info, sub.target.lstat()):
                return
            mounts.unmount(str(sub.target), lazy=True)
        _make_target(sub.target, is_directory=stat.S_ISDIR(info.st_mode))
        mounts.bind(proc_path(source), str(sub.target), recursive=False)
    finally:
        close_quietly(source)


def bind_all(sub_paths: Iterable[tuple[str, SubPath]]) -> tuple[str, str] | None:
    """Bind-mount all; return name and reason of the first failure, or None. Blocks."""
    for name, sub_path in sub_paths:
        try:
            bind_sub_path(sub_path)
        except (PykubeletError, OSError) as error:
            return name, str(error)
    return None


def _open(sub: SubPath) -> int:
    """Open the part; a directory that has to be created gets the permissions of the volume's root."""
    try:
        return open_in_root(sub.volume, sub.relative, os.O_PATH)
    except NotFound:
        mode = stat.S_IMODE(Path(sub.volume).stat().st_mode)
        return mkdir_in_root(sub.volume, sub.relative, mode)


def _make_target(target: Path, *, is_directory: bool) -> None:
    """Create an empty directory or file as mount point; one of the wrong type from an earlier run is replaced."""
    target.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    if target.is_dir() and not is_directory:
        target.rmdir()
    elif target.exists() and is_directory and not target.is_dir():
        target.unlink()
    if is_directory:
        target.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    else:
        target.touch(mode=_FILE_MODE)
