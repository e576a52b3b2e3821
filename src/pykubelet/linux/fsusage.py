"""How full a file system is, and how much of it a directory takes, without forking `du`."""

import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass

from pykubelet.base.units import Bytes
from pykubelet.linux.errors import wrap
from pykubelet.linux.treewalk import TreeWalk

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class FsUsage:
    """statvfs(3) in bytes. `available` is what an unprivileged process may still use."""

    capacity: Bytes
    available: Bytes
    used: Bytes
    inodes: int
    inodes_free: int

    @property
    def inodes_used(self) -> int:
        return self.inodes - self.inodes_free


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Disk space and inodes of a directory and all in it."""

    bytes: Bytes
    inodes: int
    complete: bool = True
    """False when something could not be read or was moved meanwhile, or the count was stopped: there may be more."""


def filesystem(path: str) -> FsUsage:
    """The file system that holds `path`. May block for long on a network file system that is gone."""
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


def tree_usage(path: str, stop: Callable[[], bool] = lambda: False) -> TreeUsage:
    """Count blocks and inodes of a tree of any depth, as ``tree_usage_in_steps`` does. ``stop`` is asked often."""
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

    Links are never followed, and every step is relative to an open directory, so a pod that moves things about cannot
    lead the count elsewhere. A step that is sent True is the last. Raises NotFound when the path is gone.
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
    """A count of a directory tree, to be carried on by its ``steps``. NotFound; NotADirectoryError for another file."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise
    except OSError as error:
        raise wrap(error, f"cannot count {path}") from error
    return TreeWalk(root)


def usage_of_walk(walk: TreeWalk, *, complete: bool = True) -> TreeUsage:
    """What a walk has counted until now."""
    return TreeUsage(Bytes(walk.blocks * _BLOCK), walk.inodes, walk.complete and complete)
