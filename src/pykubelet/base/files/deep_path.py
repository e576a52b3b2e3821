"""Paths of the node that may have any number of components, such as those in the spec of a pod.

The kernel takes no path of more than 4095 bytes in one call, and pathlib and os.makedirs recurse once per missing
directory. Here each component is opened in the directory above it, so that neither matters. Links are followed, as the
paths are those of the node; a pod's own paths are opened with ``safe_path``.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_WALK: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MADE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def stat_path(path: str) -> os.stat_result | None:
    """The status of the file at a path, links followed; None: it does not exist. Raises OSError."""
    try:
        with _Parent(path) as parent:
            return os.stat(parent.name, dir_fd=parent.fd)
    except (FileNotFoundError, NotADirectoryError):
        return None


def make_directories(path: str, mode: int) -> None:
    """Create a directory and the missing ones above it, all with the mode, whatever the umask.

    Existing directories are not changed. Raises OSError; FileExistsError if anything else is there.
    """
    with _Parent(path, make=mode) as parent:
        try:
            parent.enter(parent.name)
        except NotADirectoryError as error:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error


def make_file(path: str, mode: int) -> None:
    """Create an empty file with the mode, whatever the umask; what exists is not changed.

    Raises OSError; FileNotFoundError if its directory does not exist.
    """
    with _Parent(path) as parent, suppress(FileExistsError):
        fd = os.open(parent.name, _NEW, mode, dir_fd=parent.fd)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def real_path(path: str) -> str:
    """The path without links. Raises OSError: it does not exist, or has too many links (ELOOP)."""
    check_links(path)
    try:
        return os.path.realpath(path, strict=True)
    except RecursionError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None


def check_links(path: str) -> None:
    """Raise OSError (ELOOP) for a path with more links than the kernel follows, whether or not the file exists.

    The kernel follows 40, ``os.path.realpath`` some hundreds, from Python 3.13 on any number.
    """
    try:
        Path(path).stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise


class _Parent:
    """The open directory in which the last component of a path is, whose name is ``name``."""

    def __init__(self, path: str, make: int | None = None) -> None:
        """``make``: the mode of missing directories; None: they are not created."""
        self._path = path
        self._make = make
        self._names = [part for part in path.split("/") if part not in ("", ".")]
        self.name = self._names.pop() if self._names else "."
        self.fd = -1

    def __enter__(self) -> "_Parent":
        self.fd = os.open("/" if self._path.startswith("/") else ".", _WALK)
        try:
            for name in self._names:
                self.enter(name)
        except BaseException:
            os.close(self.fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def enter(self, name: str) -> None:
        """Open a directory in this one, which may be created before, instead of this one."""
        try:
            below = os.open(name, _WALK, dir_fd=self.fd)
        except FileNotFoundError:
            if self._make is None:
                raise
            below = self._created(name, self._make)
        os.close(self.fd)
        self.fd = below

    def _created(self, name: str, mode: int) -> int:
        try:
            os.mkdir(name, mode, dir_fd=self.fd)
        except FileExistsError as error:
            try:
                return os.open(name, _WALK, dir_fd=self.fd)  # another process has made it meanwhile
            except FileNotFoundError:
                raise error from None  # a link to nowhere
        # Not through a link: a pod that may write here could put one in its place meanwhile.
        try:
            fd = os.open(name, _MADE, dir_fd=self.fd)
        except NotADirectoryError:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        try:
            os.fchmod(fd, mode)
        except BaseException:
            os.close(fd)
            raise
        return fd
