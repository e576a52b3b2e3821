"""Mounting and unmounting: mount(2), umount2(2) and mount_setattr(2).

All functions block, some for long on network file systems. A `source` may be `/proc/self/fd/N` where
`base.files.safe_path` has pinned it; a target may not, since the descriptor would still refer to the directory
below the new mount. Errors are raised as NotFound, Invalid, Permanent or Transient (busy).
"""

import errno
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntFlag

from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Bytes
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.mountinfo import at_or_below, mount_of, mounts, mounts_below


class MountFlag(IntFlag):
    """Flags of mount(2)."""

    NONE = 0
    RDONLY = 0x1
    NOSUID = 0x2
    NODEV = 0x4
    NOEXEC = 0x8
    REMOUNT = 0x20
    NOATIME = 0x400
    NODIRATIME = 0x800
    BIND = 0x1000
    REC = 0x4000
    UNBINDABLE = 0x20000
    PRIVATE = 0x40000
    SLAVE = 0x80000
    SHARED = 0x100000
    RELATIME = 0x200000


class UmountFlag(IntFlag):
    """Flags of umount2(2)."""

    NONE = 0
    FORCE = 0x1
    DETACH = 0x2
    NOFOLLOW = 0x8


_OPEN_TREE, _MOUNT_SETATTR = 428, 442  # the same on every architecture
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_ATTR_RDONLY = 0x1
_OPEN_TREE_CLONE = 0x1
_UNMOUNT_ROUNDS = 20

# statvfs(3) reports the present options with these bits; a remount must repeat them, otherwise it clears them.
_KEPT_ON_REMOUNT = {
    os.ST_NOSUID: MountFlag.NOSUID,
    os.ST_NODEV: MountFlag.NODEV,
    os.ST_NOEXEC: MountFlag.NOEXEC,
    os.ST_NOATIME: MountFlag.NOATIME,
    os.ST_NODIRATIME: MountFlag.NODIRATIME,
    os.ST_RELATIME: MountFlag.RELATIME,
}


def mount(source: str, target: str, fs_type: str = "", flags: MountFlag = MountFlag.NONE, data: str = "") -> None:
    """Mount a file system, or change a mount according to the flags."""
    try:
        libc.call(
            "mount",
            os.fsencode(source),
            os.fsencode(target),
            fs_type.encode() or None,
            int(flags),
            data.encode() or None,
        )
    except OSError as error:
        raise wrap(error, f"cannot mount {source or fs_type or 'options'} on {target}") from error


def bind(source: str, target: str, *, recursive: bool = False, read_only: bool = False) -> None:
    """Bind-mount `source` (a file or a directory) at `target`. It is unmounted if it cannot be made read-only.

    With `recursive` the mounts below `source` appear too. They do not propagate back: otherwise unmounting the copies
    would unmount the originals.
    """
    mount(source, target, flags=MountFlag.BIND | (MountFlag.REC if recursive else MountFlag.NONE))
    if recursive:
        set_propagation(target, MountFlag.SLAVE, recursive=True)
    if read_only:
        try:
            make_read_only(target, recursive=recursive)
        except BaseException:
            with suppress(NotFound, Transient):
                unmount(target, lazy=True)
            raise


@contextmanager
def detached_bind(source: str) -> Iterator[int]:
    """A bind mount of a directory that has no path, without what is mounted below the directory: its descriptor."""
    try:
        fd = libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    except OSError as error:
        raise wrap(error, f"cannot bind {source}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def tmpfs(
    target: str, *, size: Bytes | None = None, mode: int = 0o777, options: Mapping[str, str] | None = None
) -> None:
    """Mount a tmpfs; without `size` the kernel limits it to half of the memory. `options` are those of tmpfs(5)."""
    parts = {"mode": f"{mode:o}"} | ({} if size is None else {"size": str(size)}) | dict(options or {})
    mount("tmpfs", target, "tmpfs", data=",".join(f"{key}={value}" if value else key for key, value in parts.items()))


def make_read_only(target: str, *, recursive: bool = False) -> None:
    """Make this mount and, if recursive, those below it read-only.

    Recursion needs Linux 5.12 (mount_setattr); on older kernels each mount below is remounted separately.
    """
    if recursive:
        attributes = struct.pack("=QQQQ", _ATTR_RDONLY, 0, 0, 0)
        try:
            path = os.fsencode(target)
            libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path, _AT_RECURSIVE, attributes, len(attributes))
            return
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise wrap(error, f"cannot make {target} and what is mounted below read-only") from error
        for below in at_or_below(mounts(), os.path.realpath(target)):
            _remount_read_only(below.path)
    else:
        _remount_read_only(target)


def _remount_read_only(target: str) -> None:
    try:
        in_force = os.statvfs(target).f_flag
    except OSError as error:
        raise wrap(error, f"cannot read the mount options of {target}") from error
    flags = MountFlag.BIND | MountFlag.REMOUNT | MountFlag.RDONLY
    for bit, flag in _KEPT_ON_REMOUNT.items():
        if in_force & bit:
            flags |= flag
    mount("", target, flags=flags)


def set_propagation(target: str, kind: MountFlag, *, recursive: bool = False) -> None:
    """Set the propagation of mounts below `target`: PRIVATE, SLAVE, SHARED or UNBINDABLE."""
    mount("", target, flags=kind | (MountFlag.REC if recursive else MountFlag.NONE))


def make_shared(directory: str) -> bool:
    """Ensure that later mounts below a directory propagate to the containers that request it.

    If the directory is not on a shared mount, it becomes a shared mount itself; returns whether that was needed. Raises
    Transient if there are mounts below it already, which the new mount would hide.
    """
    place, table = os.path.realpath(directory), mounts()
    lies_on = mount_of(table, place)
    if lies_on is not None and any(tag.startswith("shared:") for tag in lies_on.tags):
        return False
    below = [mount.path for mount in at_or_below(table, place) if mount.path != place]
    if below:
        raise Transient(f"{directory} cannot be made a shared mount now: there are mounts below it, such as {below[0]}")
    bind(place, place)
    set_propagation(place, MountFlag.SHARED)
    return True


def unmount(target: str, *, lazy: bool = False) -> None:
    """Unmount `target`; the last component is not followed if it is a link.

    Raises NotFound if nothing is mounted there or the path does not exist, and Transient if the mount is busy. With
    `lazy` a busy mount is detached from the tree at once and ends with its last user.
    """
    path = os.fsencode(target)
    try:
        libc.call("umount2", path, int(UmountFlag.NOFOLLOW))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise NotFound(f"nothing is mounted on {target}") from error
        if error.errno != errno.EBUSY or not lazy:
            raise wrap(error, f"cannot unmount {target}") from error
        try:
            libc.call("umount2", path, int(UmountFlag.NOFOLLOW | UmountFlag.DETACH))
        except OSError as second:
            raise wrap(second, f"cannot detach {target}") from second


def detach(target: str) -> None:
    """Detach a mount from the tree at once, even if it is busy or its file server is not responding.

    Raises NotFound if nothing is mounted there.
    """
    try:
        libc.call("umount2", os.fsencode(target), int(UmountFlag.NOFOLLOW | UmountFlag.DETACH))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise NotFound(f"nothing is mounted on {target}") from error
        raise wrap(error, f"cannot detach {target}") from error


def unmount_all_under(path: str, *, lazy: bool = False) -> int:
    """Unmount everything at `path` and below it, stacked mounts included; returns the number of unmounted mounts.

    `path` must be absolute and without links. Raises Transient, which names the first mount that is busy.
    """
    done = 0
    for _ in range(_UNMOUNT_ROUNDS):
        hidden = False
        busy: Transient | None = None
        for entry in mounts_below(path):
            try:
                unmount(entry.path, lazy=lazy)
                done += 1
            except NotFound:
                hidden = True  # by a newer mount, or another unmount took it along (propagation): look again
            except Transient as error:
                busy = busy or error
        if busy is not None:
            raise busy
        if not hidden:  # then a second look at the table, which has all mounts of the node, would find nothing
            return done
    raise Transient(f"mounts under {path} are not where the table has them; another process is mounting there")
