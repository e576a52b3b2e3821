"""Id-mapped mounts: files have other owners there than on the disk (mount_setattr(2), Linux 5.12)."""

import os
import struct

from pykubelet.base.errors import PykubeletError
from pykubelet.linux import libc, procfs
from pykubelet.linux.errors import wrap

# System calls of Linux 5.2 and 5.12: their numbers are the same on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD = -100
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_ATTR_IDMAP = 0x100000
_SLAVE = 1 << 19
_MOST_NAMESPACES = "sys/user/max_user_namespaces"


def mount_mapped(source: str, target: str, user_namespace: str, *, recursive: bool = False) -> None:
    """Mount ``source`` at ``target`` with the ids of a pinned user namespace: id 0 on the disk is id 0 there.

    With ``recursive`` the mounts below ``source`` appear too, also later ones. They do not propagate back: otherwise
    unmounting the copies would unmount the originals.

    Raises Invalid if the file system does not support it, and the errors of ``mount``. Blocks.
    """
    namespace = tree = -1
    depth = _AT_RECURSIVE if recursive else 0
    try:
        namespace = os.open(user_namespace, os.O_RDONLY | os.O_CLOEXEC)
        tree = libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | _CLOEXEC | depth)
        attributes = struct.pack("=QQQQ", _ATTR_IDMAP, 0, _SLAVE if recursive else 0, namespace)
        libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | depth, attributes, len(attributes))
        libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    except OSError as error:
        raise wrap(error, f"cannot mount {source} with the ids of a user namespace on {target}") from error
    finally:
        for fd in (namespace, tree):
            if fd >= 0:
                os.close(fd)


def kernel_version() -> tuple[int, int]:
    """The first two numbers of the running kernel's version; (0, 0) if it has none."""
    release = os.uname().release.split(".")
    try:
        return int(release[0]), int(release[1])
    except (IndexError, ValueError):
        return 0, 0


def kernel_is(at_least: tuple[int, int]) -> bool:
    """Whether the running kernel is of this version or a later one."""
    return kernel_version() >= at_least


def kernel_maps_overlays() -> bool:
    """Whether layers of an overlay can be id-mapped mounts (Linux 5.19), and user namespaces can be created at all."""
    try:
        allowed = int(procfs.machine(_MOST_NAMESPACES)) > 0
    except (PykubeletError, ValueError):
        allowed = False
    return allowed and kernel_is((5, 19))
