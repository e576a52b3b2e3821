"""Changes the group of a volume to the pod's fsGroup, so that its processes may use it whatever user they run as.

Rule: Kubernetes API, `PodSecurityContext.fsGroup` and `fsGroupChangePolicy`: everything in the volume gets the
group, read (and write) permission for it, and directories the setgid bit, so that new files belong to it too.
"""

import logging
import os
import stat
from pathlib import Path
from typing import Final, Protocol

from pykubelet.base.errors import Transient
from pykubelet.base.files.safe_path import proc_path
from pykubelet.base.text import printable
from pykubelet.linux.filesystems.treewalk import TreeWalk

_log = logging.getLogger(__name__)

ON_ROOT_MISMATCH: Final = "OnRootMismatch"
_READ: Final = 0o440
_READ_WRITE: Final = 0o660
_ENTER: Final = 0o110
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def group_mode(mode: int, *, read_only: bool = False) -> int:
    """Permission bits (with setgid) of a file or directory that is owned by the fsGroup."""
    mask = _READ if read_only else _READ_WRITE
    if stat.S_ISDIR(mode):
        mask |= _ENTER | stat.S_ISGID
    return stat.S_IMODE(mode) | mask


def needs_change(root: os.stat_result, group: int, *, read_only: bool = False) -> bool:
    """Whether group or permissions of the volume's root directory differ from those for the group."""
    return root.st_gid != group or group_mode(root.st_mode, read_only=read_only) != stat.S_IMODE(root.st_mode)


class ChangeProgress:
    """Progress of a change of many files: the thread that changes them counts, the event loop looks and stops."""

    def __init__(self) -> None:
        self.files = 0
        self.warning = ""
        """The reason why the volume is left as it is, if the user should know."""
        self._stopped = False

    def stop(self) -> None:
        """Have the thread end soon, with Transient."""
        self._stopped = True

    def check(self) -> None:
        """Raise Transient after ``stop``."""
        if self._stopped:
            raise Transient("the change of the volume's group was stopped")


class Change(Protocol):
    """Changes the files of a volume. Blocks, counts them, and ends when the progress is stopped."""

    def __call__(self, *, progress: ChangeProgress) -> object: ...


def give_to_group(
    path: str | os.PathLike[str],
    group: int,
    policy: str = "",
    *,
    read_only: bool = False,
    progress: ChangeProgress | None = None,
) -> int:
    """Change the group of the whole volume; return how many files and directories were changed. Blocks.

    With the policy OnRootMismatch nothing is done if the root directory has the right group and mode; it is changed
    last, so that an interrupted run is repeated. Links get the group, too, and are not followed. What is mounted below
    is changed. Files that cannot be changed are logged and skipped, as in the Go kubelet. Raises OSError if the root
    cannot be read, Transient if a directory below cannot, and when ``progress`` is stopped.
    """
    progress = progress or ChangeProgress()
    root = os.open(path, _OPEN)
    try:
        if policy == ON_ROOT_MISMATCH and not needs_change(os.fstat(root), group, read_only=read_only):
            return 0
        changed = 0

        def visit(directory: int, name: str) -> None:
            nonlocal changed
            changed += _change(name, directory, group, read_only)
            progress.files += 1

        walk = TreeWalk(os.dup(root), visit, other_file_systems=True)
        for _ in walk.steps():  # a pod may nest directories as deep as it likes
            progress.check()
        if not walk.complete:
            # With OnRootMismatch, the root must not say that the change is done.
            reason = "a directory was moved meanwhile" if walk.error is None else printable(str(walk.error))
            raise Transient(f"the volume's group is not changed everywhere: {reason}")
        return changed + _change(".", root, group, read_only)
    finally:
        os.close(root)


def _change(name: str, directory: int, group: int, read_only: bool) -> int:
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        _log.warning("fsGroup of a file not changed", extra={"file": name, "error": str(error)})
        return 0
    # All calls use the descriptor, so that a link put in its place has no effect.
    path = proc_path(fd)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            # The permissions of links mean nothing. Whatever is put in its place is of the volume, too.
            os.chown(name, -1, group, dir_fd=directory, follow_symlinks=False)
            return 1
        os.chown(path, -1, group)
        Path(path).chmod(group_mode(mode, read_only=read_only))
    except OSError as error:
        _log.warning("fsGroup of a file not changed", extra={"file": name, "error": str(error)})
        return 0
    finally:
        os.close(fd)
    return 1
