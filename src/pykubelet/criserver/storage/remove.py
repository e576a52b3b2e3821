"""Removal of directory trees with the content of a container or an image. Blocking."""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from pykubelet.base.errors import Conflict, Transient
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems import removal


def remove_tree(path: str) -> None:
    """Remove a directory tree of any depth. Idempotent: no error if it is missing.

    Links are removed, never followed; data beyond a mount is never touched. Raises Transient if something is mounted
    there, and the errors of ``linux.errors.wrap``.
    """
    parent, name = os.path.split(path)
    with _explained(path), suppress(FileNotFoundError):
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            removal.remove_tree_at(fd, name)
        finally:
            os.close(fd)


def remove_any(path: str) -> None:
    """Remove a file, a link (not its target) or a directory tree, like ``remove_tree``."""
    for _ in removal_steps(path):
        pass


def removal_steps(path: str) -> Generator[None, None, None]:
    """Remove like ``remove_any`` in short steps; the generator may be closed at any moment."""
    with _explained(path), suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108 - the name is text already
            return
        parent, name = os.path.split(path)
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield from removal.removal_steps(fd, name)
        finally:
            os.close(fd)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        raise Transient(f"cannot remove {path}: {error}") from error
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
