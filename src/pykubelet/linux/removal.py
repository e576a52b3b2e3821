"""Safe removal of directory trees that a pod has written: nothing outside the tree is ever deleted.

The content is assumed to be hostile: links out of the volume, trees too deep for recursion, mounts that could not be
unmounted. So no path is used that the pod could have changed: every directory is opened relative to a descriptor
without following links, and must be on the same mount as the directory to remove. In addition, the kernel refuses to
remove or rename a mount point.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pykubelet.base.errors import Conflict
from pykubelet.linux import procfs

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Delete a directory tree. Idempotent: no error if it is missing. Blocks.

    Raises Conflict if something is mounted at or below it (data beyond a mount is never touched), OSError if
    the kernel refuses. Entries deleted before the error stay deleted.
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
    try:
        top = os.open(name, _OPEN, dir_fd=parent_fd)
    except FileNotFoundError:
        return
    try:
        _Removal(top, name, mount_id(parent_fd)).run()
    finally:
        os.close(top)
    with _explained(name):
        os.rmdir(name, dir_fd=parent_fd)


def mount_id(fd: int) -> int:
    """The kernel's id of the mount of an open file; it differs between bind mounts of one file system."""
    found = procfs.mount_id(fd)
    if found is None:
        raise OSError(errno.ENOSYS, "the kernel reports no mount ids in /proc/self/fdinfo")
    return found


class _Removal:
    """Empties one directory. Deeper directories are moved up into it, so two descriptors suffice for any depth."""

    def __init__(self, top: int, name: str, mount: int) -> None:
        self._top = top
        self._name = name
        self._mount = mount

    def run(self) -> None:
        self._check_mount(self._top, self._name)
        while True:
            directories = self._clear(self._top, move_up=False)
            if not directories:
                return
            for directory in directories:
                self._remove_directory(directory)

    def _remove_directory(self, directory: str) -> None:
        """Remove a direct subdirectory of the top directory; its subdirectories are moved into the top directory."""
        try:
            fd = os.open(directory, _OPEN, dir_fd=self._top)
        except (FileNotFoundError, NotADirectoryError):
            return  # removed, or replaced by a file, which the next round removes
        try:
            self._check_mount(fd, directory)
            self._clear(fd, move_up=True)
        finally:
            os.close(fd)
        with _explained(directory):
            os.rmdir(directory, dir_fd=self._top)

    def _clear(self, fd: int, *, move_up: bool) -> list[str]:
        """Remove files and empty directories; move other directories into the top one, or return their names."""
        directories: list[str] = []
        seen = True
        while seen:  # entries may be skipped if a directory changes while it is read
            seen = False
            with os.scandir(fd) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        with _explained(entry.name):
                            os.unlink(entry.name, dir_fd=fd)
                    elif not _rmdir(entry.name, fd):
                        if not move_up:
                            directories.append(entry.name)
                            continue
                        with _explained(entry.name):
                            os.rename(
                                entry.name, f".removed-{secrets.token_hex(8)}", src_dir_fd=fd, dst_dir_fd=self._top
                            )
                    seen = True
            if directories:
                break
        return directories

    def _check_mount(self, fd: int, directory: str) -> None:
        if mount_id(fd) != self._mount:
            raise Conflict(f"{directory!r} is a mount point; it is left as it is")


def _rmdir(name: str, fd: int) -> bool:
    """Remove a directory if it is empty; returns whether it was."""
    try:
        with _explained(name):
            os.rmdir(name, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raise the kernel's refusal to remove a mount point (EBUSY) as Conflict."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Conflict(f"{name!r} is a mount point; it is left as it is") from error
        raise
