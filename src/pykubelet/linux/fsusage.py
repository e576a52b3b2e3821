"""How full a file system is, and how much of it a folder takes, without forking `du`."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from pykubelet.base.units import Bytes
from pykubelet.linux.errors import wrap

_BLOCK = 512
_MAX_OPEN = 256


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
    """Disk space and inodes of a folder and all in it."""

    bytes: Bytes
    inodes: int
    complete: bool = True
    """False when something could not be read, is nested absurdly deep, or the count was stopped."""


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
    """Count blocks and inodes like `du -x`: hard links once, other file systems not at all.

    Links are never followed, and every step is relative to an open folder, so a pod that moves things about
    cannot lead the count elsewhere. `stop` is asked at each folder. Raises NotFound when the path is gone.
    """
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        entry = os.lstat(path)
        return TreeUsage(Bytes(entry.st_blocks * _BLOCK), 1)
    except OSError as error:
        raise wrap(error, f"cannot count {path}") from error
    count = _Count(os.fstat(root))
    # The folders we are in, each with the subfolders still to visit. A folder is closed when none are left.
    trail: list[tuple[int, list[str]]] = []
    try:
        trail.append((root, count.scan(root)))
        while trail:
            folder, pending = trail[-1]
            if not pending or stop():
                count.complete &= not pending
                trail.pop()
                os.close(folder)
                continue
            child = count.enter(folder, pending.pop())
            if child is None:
                continue
            if len(trail) >= _MAX_OPEN:
                count.complete = False
                os.close(child)
                continue
            trail.append((child, count.scan(child)))
    finally:
        for folder, _ in trail:
            os.close(folder)
    return TreeUsage(Bytes(count.blocks * _BLOCK), count.inodes, count.complete)


class _Count:
    def __init__(self, root: os.stat_result) -> None:
        self.blocks = root.st_blocks
        self.inodes = 1
        self.complete = True
        self._device = root.st_dev
        self._linked: set[int] = set()

    def scan(self, folder: int) -> list[str]:
        """Add what is directly in the folder; returns the names of its subfolders."""
        subfolders = []
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if facts.st_dev != self._device:
                    continue
                if stat.S_ISDIR(facts.st_mode):
                    subfolders.append(entry.name)
                elif facts.st_nlink > 1:
                    if facts.st_ino in self._linked:
                        continue
                    self._linked.add(facts.st_ino)
                self.blocks += facts.st_blocks
                self.inodes += 1
        return subfolders

    def enter(self, folder: int, name: str) -> int | None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError:
            self.complete = False
            return None
