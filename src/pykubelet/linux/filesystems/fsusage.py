"""Usage of a file system, and of one directory tree without running `du`."""

import os
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from pykubelet.base.units import Bytes
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.treewalk import TreeWalk

_BLOCK = 512


class FsUsage(Struct, frozen=True):
    """The result of statvfs(3) in bytes. `available` is the space that an unprivileged process may still use."""

    capacity: Bytes
    available: Bytes
    used: Bytes
    inodes: int
    inodes_free: int

    @property
    def inodes_used(self) -> int:
        return self.inodes - self.inodes_free


class TreeUsage(Struct, frozen=True):
    """Disk space and inodes of a directory tree."""

    bytes: Bytes
    inodes: int
    complete: bool = True
    """False if an entry could not be read or was moved, or the count was stopped: the real usage may be higher."""


def filesystem(path: str) -> FsUsage:
    """The usage of the file system of `path`. May block for long on a network file system that is unavailable."""
    try:
        vfs = os.statvfs(path)
    except OSError as error:
        raise wrap(error, f"cannot read the file system of {path}") from error
    return FsUsage(
        capacity=Bytes(vfs.f_blocks * vfs.f_frsize),
        available=Bytes(vfs.f_bavail * vfs.f_frsize),
        used=Bytes((vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize),
        inodes=vfs.f_files,
        inodes_free=vfs.f_ffree,
    )


def are_apart(one: str, other: str) -> bool:
    """Whether two paths are on different file systems; False if one of them is empty or cannot be read. May block."""
    try:
        return bool(one and other) and Path(one).stat().st_dev != Path(other).stat().st_dev
    except OSError:
        return False


def tree_usage(path: str, stop: Callable[[], bool] = lambda: False) -> TreeUsage:
    """Count blocks and inodes of a tree of any depth, like ``tree_usage_in_steps``, until ``stop`` returns True."""
    steps = tree_usage_in_steps(path)
    try:
        next(steps)
        while True:
            steps.send(stop())
    except StopIteration as end:
        usage: TreeUsage = end.value
        return usage


def tree_usage_in_steps(path: str) -> Generator[None, bool | None, TreeUsage]:
    """Count blocks and inodes like `du -x`: hard links once, other file systems not at all.

    Links are never followed, and every step is relative to an open directory, so a pod that moves directories cannot
    lead the count out of the tree. Send True to a step to stop the count. Raises NotFound if the path does not exist.
    """
    try:
        walk = start_walk(path)
    except NotADirectoryError:
        entry = os.lstat(path)
        return TreeUsage(Bytes(entry.st_blocks * _BLOCK), 1)
    with closing(walk.steps()) as steps:
        for _ in steps:
            if (yield):
                walk.complete = False
                break
    return usage_of_walk(walk)


def start_walk(path: str) -> TreeWalk:
    """Start counting a directory tree; continue with its ``steps``. Raises NotFound or NotADirectoryError."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise
    except OSError as error:
        raise wrap(error, f"cannot count {path}") from error
    return TreeWalk(root)


def usage_of_walk(walk: TreeWalk, *, complete: bool = True) -> TreeUsage:
    """The usage that a walk has counted so far."""
    return TreeUsage(Bytes(walk.blocks * _BLOCK), walk.inodes, walk.complete and complete)
