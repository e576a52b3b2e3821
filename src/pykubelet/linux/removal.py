"""Deletes directories of a pod, and nothing but these.

What a pod leaves behind is hostile by assumption: links out of the volume, trees too deep for recursion, mounts
that could not be taken down. So nothing is addressed by a path that the pod could have changed: every directory is
opened relative to a descriptor without following links, and must be on the same mount as the directory that was
asked for. The kernel backs this up by refusing to remove or rename a mount point.
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
    """Delete the directory with all it contains; a missing one is fine. Blocks.

    Raises Conflict if something is mounted at or below it (data beyond a mount is never touched), OSError if
    the kernel refuses. What was deleted until then is gone.
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
    """The same for the directory `name` in the directory of the descriptor."""
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
    """The kernel's number of the mount that an open file lies on; bind mounts of one file system differ in it."""
    found = procfs.mount_id(fd)
    if found is None:
        raise OSError(errno.ENOSYS, "the kernel tells no mount ids in /proc/self/fdinfo")
    return found


class _Removal:
    """Empties one directory. Deeper directories are moved up into it first, so two descriptors do for any depth."""

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
        """Remove a directory that lies directly in the top one; its own directories end up there too."""
        try:
            fd = os.open(directory, _OPEN, dir_fd=self._top)
        except (FileNotFoundError, NotADirectoryError):
            return  # gone, or replaced by a file, which the next round removes
        try:
            self._check_mount(fd, directory)
            self._clear(fd, move_up=True)
        finally:
            os.close(fd)
        with _explained(directory):
            os.rmdir(directory, dir_fd=self._top)

    def _clear(self, fd: int, *, move_up: bool) -> list[str]:
        """Remove files and empty directories. Other directories are moved into the top one, or their names returned."""
        directories: list[str] = []
        seen = True
        while seen:  # entries may be skipped when a directory changes while it is read
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
    """Remove a directory if it is empty; whether it was."""
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
    """Turns the kernel's refusal to remove a mount point into a Conflict."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Conflict(f"{name!r} is a mount point; it is left as it is") from error
        raise
