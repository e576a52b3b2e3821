"""Safe removal of directory trees that a pod has written: nothing outside the tree is ever deleted.

The content is assumed to be hostile: links out of the volume, trees too deep for recursion, mounts that could not be
unmounted. So no path is used that the pod could have changed: every directory is opened relative to a descriptor
without following links, and must be on the same mount as the directory to remove. In addition, the kernel refuses to
remove or rename a mount point.

A file that the kernel refuses to remove (immutable, for example) stays with its directory; everything else is removed.
"""

import errno
import os
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pykubelet.base.errors import Conflict
from pykubelet.linux import procfs

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 64
"""Entries that are removed before the removal may be interrupted."""
_MOST_NAMES: Final = 1 << 16
"""Names of directories that are kept at a time."""
_REFUSED: Final = frozenset((errno.EPERM, errno.EACCES, errno.EBUSY, errno.ETXTBSY))
"""Errors that concern one entry, unlike those of a file system that is read-only or failing."""

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
        top = os.open(name, _OPEN, dir_fd=parent_fd)
    except FileNotFoundError:
        return
    try:
        yield from _Removal(top, name, mount=mount_id(parent_fd)).steps()
    finally:
        os.close(top)
    with _explained(name), suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent_fd)


def mount_id(fd: int) -> int:
    """The kernel's id of the mount of an open file; it differs between bind mounts of one file system."""
    found = procfs.mount_id(fd)
    if found is None:
        raise OSError(errno.ENOSYS, "the kernel reports no mount ids in /proc/self/fdinfo")
    return found


class _Removal:
    """Empties one directory. Deeper directories are moved up into it, so two descriptors suffice for any depth."""

    def __init__(self, top: int, name: str, *, mount: int) -> None:
        self._top = top
        self._name = name
        self._mount = mount
        self._kept: set[str] = set()
        """Names of directories in the top directory that cannot be removed."""
        self._error: OSError | Conflict | None = None
        """The first refusal."""
        self._handled = 0

    def steps(self) -> Steps:
        self._check_mount(self._top, self._name)
        while len(self._kept) < _MOST_NAMES:
            directories = yield from self._clear(self._top, move_up=False)
            if not directories:
                break
            for directory in directories:
                if not (yield from self._remove_directory(directory)):
                    self._kept.add(directory)
        if self._error is not None:
            raise self._error

    def _remove_directory(self, directory: str) -> Generator[None, None, bool]:
        """Remove a direct subdirectory of the top directory; its subdirectories are moved into the top directory.

        Returns whether it is gone.
        """
        try:
            fd = os.open(directory, _OPEN, dir_fd=self._top)
        except (FileNotFoundError, NotADirectoryError):
            return True  # removed, or replaced by a file, which the next round removes
        try:
            with self._refusable():
                self._check_mount(fd, directory)
                yield from self._clear(fd, move_up=True)
        finally:
            os.close(fd)
        gone = False
        with self._refusable():
            gone = _rmdir(directory, self._top)
        return gone

    def _clear(self, fd: int, *, move_up: bool) -> Generator[None, None, list[str]]:
        """Remove files and empty directories; move other directories into the top one, or return their names."""
        directories: list[str] = []
        removed = -1
        while removed:  # entries may be skipped if a directory changes while it is read
            removed = 0
            with os.scandir(fd) as entries:
                for entry in entries:
                    self._handled += 1
                    if self._handled % _PIECE == 0:
                        yield
                    with self._refusable():
                        if self._gone(entry, fd, move_up=move_up):
                            removed += 1
                        elif not move_up and entry.name not in self._kept:
                            directories.append(entry.name)
                    if len(directories) >= _MOST_NAMES:
                        break
            if directories:
                break
        return directories

    def _gone(self, entry: "os.DirEntry[str]", fd: int, *, move_up: bool) -> bool:
        """Remove an entry or move it up; returns False for a directory that has to be emptied where it is."""
        with _explained(entry.name), suppress(FileNotFoundError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=fd)
            elif not _rmdir(entry.name, fd):
                if not move_up:
                    return False
                os.rename(entry.name, f".removed-{secrets.token_hex(8)}", src_dir_fd=fd, dst_dir_fd=self._top)
        return True

    def _check_mount(self, fd: int, directory: str) -> None:
        if mount_id(fd) != self._mount:
            raise Conflict(f"{directory!r} is a mount point; it is left as it is")

    @contextmanager
    def _refusable(self) -> Iterator[None]:
        """Remember the refusal to remove an entry, and go on with the others."""
        try:
            yield
        except Conflict as error:
            self._error = self._error or error
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            named = OSError(error.errno, f"{error.filename!r}: {error.strerror}")
            self._error = self._error or named


def _rmdir(name: str, fd: int) -> bool:
    """Remove a directory if it is empty; returns whether it was."""
    try:
        with _explained(name):
            os.rmdir(name, dir_fd=fd)
    except FileNotFoundError:
        return True
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
