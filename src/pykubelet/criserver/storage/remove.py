"""Removing directory trees that a container or an image has filled, with the errors of the runtime server. Blocking."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pykubelet.base.errors import Conflict, Transient
from pykubelet.linux import removal
from pykubelet.linux.errors import wrap


def remove_tree(path: str) -> None:
    """Remove the directory and everything in it, of any depth; one that is gone already is fine.

    Links are removed, never followed; data beyond a mount is never touched. Transient: something is mounted there.
    Other errors as of ``linux.errors.wrap``.
    """
    parent, name = os.path.split(path)
    with _explained(path), suppress(FileNotFoundError):
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            removal.remove_tree_at(fd, name)
        finally:
            os.close(fd)


def remove_any(path: str) -> None:
    """The same for a file, a link or a directory; a link itself is removed, not what it points at."""
    with _explained(path), suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108 - no Path is made of a name that we have as text
            return
    remove_tree(path)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        raise Transient(f"cannot remove {path}: {error}") from error
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
