"""Safe removal of directory trees that a pod has written: nothing outside the tree is ever deleted.

The content is assumed to be hostile: links out of the volume, trees too deep for recursion, mounts that could not be
unmounted. So no path is used that the pod could have changed: every directory is opened relative to a descriptor
without following links, and must be on the same mount as the directory above it. In addition, the kernel refuses to
remove or rename a mount point.

A file that the kernel refuses to remove (immutable, for example) stays with its directory; everything else is removed.
"""

import errno
import os
import secrets
import struct
from collections.abc import Generator
from typing import Final

from pykubelet.base.errors import Conflict
from pykubelet.linux import libc, procfs

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SYS_OPENAT2: Final = 437  # the same on all architectures
_RESOLVE_NO_XDEV: Final = 1
_OPEN_HOW: Final = struct.pack("QQQ", _OPEN, 0, _RESOLVE_NO_XDEV)
_PIECE: Final = 64
"""Entries that are removed before the removal may be interrupted."""
_MOST_NAMES: Final = 1 << 16
"""Names of directories that are kept at a time."""
_REFUSED: Final = frozenset((errno.EPERM, errno.EACCES, errno.EBUSY, errno.ETXTBSY))
"""Errors that concern one entry, unlike those of a file system that is read-only or failing."""
_NO_OPENAT2: Final = frozenset((errno.ENOSYS, errno.EPERM))
"""Errors of a kernel before Linux 5.6, and of a seccomp profile that does not know the call."""

Steps = Generator[None, None, None]


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Delete a directory tree. Idempotent: no error if it is missing. Blocks.

    Raises Conflict if something is mounted at or below it (data beyond a mount is never touched), OSError if
    the kernel refuses. An entry that cannot be removed is named by the error and does not keep the others.
    """
    parent, name = os.path.split(os.fspath(path))
    try:
        parent_fd = os.open(parent, _OPEN)
    except FileNotFoundError:
        return
    try:
        remove_tree_at(parent_fd, name)
    finally:
        os.close(parent_fd)


def remove_tree_at(parent_fd: int, name: str) -> None:
    """Delete the directory tree `name` in the directory of the descriptor, like ``remove_tree``."""
    for _ in removal_steps(parent_fd, name):
        pass


def removal_steps(parent_fd: int, name: str) -> Steps:
    """Delete like ``remove_tree_at``, in steps of a few milliseconds on a healthy disk.

    It may be closed at any moment; another removal of the same tree then continues.
    """
    try:
        top = open_directory(parent_fd, name)
    except FileNotFoundError:
        return
    try:
        yield from _Removal(parent_fd, name, top=top).steps()
    finally:
        os.close(top)


def open_directory(parent_fd: int, name: str) -> int:
    """Open the directory `name` in the directory of the descriptor, without following a link.

    Raises Conflict if it is a mount point, a bind mount of the same file system too; OSError as ``os.open``.
    """
    try:
        return libc.syscall(_SYS_OPENAT2, parent_fd, os.fsencode(name), _OPEN_HOW, len(_OPEN_HOW))
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _mount_point(name) from error
        if error.errno not in _NO_OPENAT2:
            raise OSError(error.errno, error.strerror, name) from None
    fd = os.open(name, _OPEN, dir_fd=parent_fd)
    try:
        if _mount_id(fd) != _mount_id(parent_fd):
            raise _mount_point(name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _mount_id(fd: int) -> int:
    found = procfs.mount_id(fd)
    if found is None:
        raise OSError(errno.ENOSYS, "the kernel reports no mount ids in /proc/self/fdinfo")
    return found


def _mount_point(name: str) -> Conflict:
    return Conflict(f"{name!r} is a mount point; it is left as it is")


class _Removal:
    """Removes one directory. Deeper directories are moved up into it, so two descriptors suffice for any depth."""

    def __init__(self, parent: int, name: str, *, top: int) -> None:
        self._parent = parent
        self._name = name
        self._top = top
        self._kept: set[str] = set()
        """Names of directories in the top directory that cannot be removed."""
        self._error: OSError | Conflict | None = None
        """The first refusal."""
        self._handled = 0
        self._removed = 0
        """Entries that are gone from the directory where they were: a pass that adds none is the last."""

    def steps(self) -> Steps:
        before = -1
        # Entries may be skipped if a directory changes while it is read. Then there is another pass.
        while before < self._removed and len(self._kept) < _MOST_NAMES:
            before = self._removed
            for directory in (yield from self._clear(self._top, move_up=False)):
                yield from self._remove_directory(directory)
            if self._removed_directory(self._name, self._parent):
                return
        raise self._error or OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), self._name)

    def _remove_directory(self, directory: str) -> Steps:
        """Remove a direct subdirectory of the top directory; its subdirectories are moved into the top directory."""
        try:
            fd = open_directory(self._top, directory)
        except (FileNotFoundError, NotADirectoryError):
            self._removed += 1  # or replaced by a file, which the next pass removes
            return
        except (OSError, Conflict) as error:
            self._refuse(directory, error)
            self._kept.add(directory)
            return
        try:
            before = -1
            while before < self._removed:
                before = self._removed
                yield from self._clear(fd, move_up=True)
                if self._removed_directory(directory, self._top):
                    return
        finally:
            os.close(fd)
        self._kept.add(directory)

    def _clear(self, fd: int, *, move_up: bool) -> Generator[None, None, list[str]]:
        """Remove files and empty directories; move other directories into the top one, or return their names."""
        directories: list[str] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self._handled += 1
                if self._handled % _PIECE == 0:
                    yield
                name = entry.name
                if not entry.is_dir(follow_symlinks=False):
                    self._remove_file(name, fd)
                elif move_up:
                    if not self._removed_directory(name, fd):
                        self._move_up(name, fd)
                elif name not in self._kept and not self._removed_directory(name, fd):
                    directories.append(name)
                    if len(directories) >= _MOST_NAMES:
                        break
        return directories

    def _remove_file(self, name: str, fd: int) -> None:
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._refuse(name, error)
            return
        self._removed += 1

    def _removed_directory(self, name: str, fd: int) -> bool:
        """Remove an empty directory; returns False if it is not empty or cannot be removed."""
        try:
            os.rmdir(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                self._refuse(name, error)
            return False
        self._removed += 1
        return True

    def _move_up(self, name: str, fd: int) -> None:
        try:
            os.rename(name, f".removed-{secrets.token_hex(8)}", src_dir_fd=fd, dst_dir_fd=self._top)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._refuse(name, error)
            return
        self._removed += 1

    def _refuse(self, name: str, error: OSError | Conflict) -> None:
        """Remember the refusal to remove an entry, to go on with the others; raises what concerns all of them."""
        if isinstance(error, OSError):
            if error.errno not in _REFUSED:
                raise error
            if error.errno == errno.EBUSY:
                error = _mount_point(name)
            else:
                error = OSError(error.errno, f"{name!r}: {error.strerror}")
        self._error = self._error or error
