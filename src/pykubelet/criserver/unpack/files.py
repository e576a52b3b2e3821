# ruff: noqa: PTH108, PTH106
# A Path object for each entry would cost more than the calls do.
"""Operations on single files for the extractor: attributes and removal. Runs in the chrooted worker only."""

import errno
import os
import stat
from collections.abc import Callable

from pykubelet.criserver.unpack.limits import BadLayer
from pykubelet.criserver.unpack.tarstream import Entry, EntryKind

DEFAULT_ACL = "system.posix_acl_default"
_XATTRS = ("security.capability", "system.posix_acl_access", DEFAULT_ACL)


def allowed_xattrs(asked: dict[str, bytes]) -> dict[str, bytes]:
    """The requested attributes that images may have. ``*.overlay.*`` is not allowed: it would control overlayfs."""
    return {key: value for key, value in asked.items() if key in _XATTRS or _is_plain(key)}


def _is_plain(key: str) -> bool:
    return key.startswith("user.") and not key.startswith("user.overlay.")


def set_xattr(target: int | str, key: str, value: bytes) -> None:
    """Set one attribute, never through a link. Raises BadLayer if it is too large."""
    try:
        if isinstance(target, int):
            os.setxattr(target, key, value)
        else:
            os.setxattr(target, key, value, follow_symlinks=False)
    except OSError as error:
        # Links and devices cannot have user attributes, and not every file system supports all kinds.
        if error.errno in (errno.ERANGE, errno.E2BIG):
            raise BadLayer(f"extended attribute {key[:80]!r}: {error.strerror}") from error
        if error.errno not in (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL):
            # Also raised by file systems that have space for small attributes only.
            error.filename = f"extended attribute {key} of {len(value)} bytes"
            raise


def is_whiteout(facts: os.stat_result) -> bool:
    """Whether the file is a whiteout of overlayfs, the mark of a removed file."""
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def remove_any(path: str, before: Callable[[str], None]) -> None:
    """Remove a file or a directory tree; ``before`` is called with each path first."""
    try:
        before(path)
        os.unlink(path)
    except IsADirectoryError:
        _remove_tree(path, before)
    except (FileNotFoundError, NotADirectoryError):
        pass


def _remove_tree(path: str, before: Callable[[str], None]) -> None:
    """Remove a directory tree, whose depth is bounded, as that of every name in a layer."""
    directories = [path]
    for directory in directories:
        with os.scandir(directory) as entries:
            for entry in entries:
                before(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                else:
                    os.unlink(entry.path)
    for directory in reversed(directories):
        os.rmdir(directory)


def device_of(entry: Entry) -> tuple[int, int]:
    """Major and minor number of a device. BadLayer: they are out of range, or those of a whiteout."""
    major, minor = entry.device
    if not (0 <= major < 1 << 12 and 0 <= minor < 1 << 20):
        raise BadLayer(f"{entry.name!r}: device {major}:{minor} is out of range")
    if entry.kind is EntryKind.CHAR and major == minor == 0:
        raise BadLayer(f"{entry.name!r} is device 0:0, a whiteout in disguise")
    return major, minor
