"""Counts blocks and inodes of a directory tree of any depth, with bounded memory and few descriptors.

The tree belongs to a pod, which may nest directories a million deep or put a million into one. So only the lowest
``_MOST_LEVELS`` levels of the current path are kept open, each with its descriptor and the next few names in order. Of
a level that was closed only the inode number and the name that was entered are kept: it is opened again by ``..`` from
the level below, and the walk continues after that name. If ``..`` leads elsewhere, because the pod has moved the level
below, the walk goes down from the root by the kept names as far as they lead, so that a move hides none of the other
entries. Links are never followed, and every step is relative to an open directory, so a pod that moves directories
cannot lead the count out of the tree.

The walk is a generator, so that a long one can be done in slices; it may be closed at any moment.
"""

import os
import stat
from array import array
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final

from msgspec import Struct, field

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LEVELS: Final = 64
_MOST_NAMES: Final = 1 << 16
"""Names of subdirectories that are kept. A level gets half of the free ones, and ``_FEWEST_NAMES`` at least."""
_FEWEST_NAMES: Final = 256
_MOST_ENTERED: Final = 1 << 14
"""Closed levels whose entered names are kept, from the root down; deeper ones are searched for the level below."""
_MOST_LINKED: Final = 1 << 16
"""Files with several hard links that are remembered; each name of further ones counts for its share."""
_PIECE: Final = 512
"""Entries that are read before the walk may be interrupted."""

Steps = Generator[None, None, None]


class TreeWalk:
    """The counts so far: 512-byte blocks like ``du -x``, hard links once, other file systems not at all."""

    def __init__(
        self, root: int, visit: Callable[[int, str], None] | None = None, *, other_file_systems: bool = False
    ) -> None:
        """``root`` is the descriptor of the directory; ``steps`` closes it.

        ``visit`` is called for every entry below the root, with its directory's descriptor and its name.
        ``other_file_systems``: directories of those are entered as well; subvolumes of btrfs count as such.
        """
        self._visit = visit
        self._leaves_device = other_file_systems
        found = os.fstat(root)
        self.complete = True
        """False if an entry could not be read or was moved while it was counted."""
        self.error: OSError | None = None
        """The last error that prevented an entry from being read."""
        self._device = found.st_dev
        self._blocks = float(found.st_blocks)
        self._inodes = 1.0
        self._linked: set[int] = set()
        self._levels: deque[_Level] = deque([_Level(root)])
        self._root = os.dup(root)
        self._closed = array("Q")
        """Inode numbers of the closed levels above the open ones, from the root down."""
        self._devices = array("Q")
        """Their devices."""
        self._entered: list[str] = []
        """For the first of the closed levels: the name of the subdirectory that was entered."""

    @property
    def blocks(self) -> int:
        return round(self._blocks)

    @property
    def inodes(self) -> int:
        return round(self._inodes)

    def steps(self) -> Steps:
        """Count the tree; each step takes a few milliseconds at most on a healthy disk."""
        try:
            yield from self._read(self._levels[-1], counting=True)
            while True:
                yield
                level = self._levels[-1]
                if level.pending:
                    yield from self._descend(level)
                elif level.more:
                    yield from self._read(level, counting=False)
                elif not (yield from self._ascend(level)):
                    return
        finally:
            for level in self._levels:
                os.close(level.fd)
            self._levels.clear()
            os.close(self._root)

    def _descend(self, level: "_Level") -> Steps:
        level.last = level.pending.popleft()
        try:
            fd = os.open(level.last, _OPEN, dir_fd=level.fd)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._unreadable(error)
            return
        if not self._leaves_device and os.fstat(fd).st_dev != self._device:
            os.close(fd)
            return
        below = _Level(fd)
        self._levels.append(below)
        if len(self._levels) > _MOST_LEVELS:
            highest = self._levels.popleft()
            if len(self._entered) == len(self._closed) < _MOST_ENTERED:
                self._entered.append(highest.last)
            found = os.fstat(highest.fd)
            self._closed.append(found.st_ino)
            self._devices.append(found.st_dev)
            os.close(highest.fd)
        yield from self._read(below, counting=True)

    def _ascend(self, level: "_Level") -> Generator[None, None, bool]:
        """Leave a finished level; returns False if it was the root."""
        if len(self._levels) == 1:
            if not self._closed:
                return False
            above = self._parent(level.fd, (self._devices[-1], self._closed[-1]))
            if above is not None:
                self._levels.appendleft(above)
                if len(self._entered) == len(self._closed):
                    above.last, above.more = self._entered[-1], True
                elif not (yield from self._find(above, os.fstat(level.fd))):
                    os.close(self._levels.popleft().fd)
                    above = None
            if above is None:
                self.complete = False
                self._levels.appendleft(self._from_root())
            self._closed.pop()
            self._devices.pop()
            del self._entered[len(self._closed) :]
        os.close(self._levels.pop().fd)
        return True

    def _from_root(self) -> "_Level":
        """Open the deepest closed level that was not moved; the closed levels below it are dropped."""
        fd, depth = os.dup(self._root), 0
        while depth + 1 < len(self._entered):
            try:
                below = os.open(self._entered[depth], _OPEN, dir_fd=fd)
            except OSError:
                break
            found = os.fstat(below)
            if (found.st_dev, found.st_ino) != (self._devices[depth + 1], self._closed[depth + 1]):
                os.close(below)
                break
            os.close(fd)
            fd, depth = below, depth + 1
        del self._closed[depth + 1 :], self._devices[depth + 1 :], self._entered[depth + 1 :]
        return _Level(fd, last=self._entered[depth], more=True)

    def _parent(self, fd: int, identity: tuple[int, int]) -> "_Level | None":
        """Open the level above a directory; None if that is another directory now, because this one was moved."""
        try:
            parent = os.open("..", _OPEN, dir_fd=fd)
        except OSError:
            return None
        found = os.fstat(parent)
        if (found.st_dev, found.st_ino) != identity:
            os.close(parent)
            return None
        return _Level(parent)

    def _find(self, level: "_Level", child: os.stat_result) -> Generator[None, None, bool]:
        """Continue in the level after that subdirectory; returns False if it is missing."""
        with suppress(OSError), os.scandir(level.fd) as entries:
            for number, entry in enumerate(entries, 1):
                if number % _PIECE == 0:
                    yield
                if self._is(entry, child):
                    level.last, level.more = entry.name, True
                    return True
        return False

    def _is(self, entry: "os.DirEntry[str]", child: os.stat_result) -> bool:
        if self._leaves_device:
            # What a directory says of a mount is the inode below it.
            try:
                return os.path.samestat(entry.stat(follow_symlinks=False), child)
            except OSError:
                return False
        return entry.inode() == child.st_ino and entry.is_dir(follow_symlinks=False)

    def _unreadable(self, error: OSError) -> None:
        self.complete, self.error = False, error

    def _read(self, level: "_Level", *, counting: bool) -> Steps:
        """Store the next subdirectories of a level in order of their names; with ``counting``, count its entries."""
        names: list[str] = []
        batch = max(_FEWEST_NAMES, (_MOST_NAMES - sum(len(each.pending) for each in self._levels)) // 2)
        try:
            with os.scandir(level.fd) as entries:
                for number, entry in enumerate(entries, 1):
                    if number % _PIECE == 0:
                        yield
                    is_dir = self._add(entry) if counting else entry.is_dir(follow_symlinks=False)
                    if counting and self._visit is not None:
                        self._visit(level.fd, entry.name)
                    if is_dir and entry.name > level.last:
                        names.append(entry.name)
                        if len(names) > 2 * batch:
                            names = sorted(names)[: batch + 1]
        except FileNotFoundError:
            pass  # the directory was removed meanwhile
        except OSError as error:
            self._unreadable(error)
        names.sort()
        level.pending, level.more = deque(names[:batch]), len(names) > batch

    def _add(self, entry: "os.DirEntry[str]") -> bool:
        """Count an entry; returns whether it is a directory to enter."""
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._unreadable(error)
            return False
        if not self._leaves_device and found.st_dev != self._device:
            return False
        share, is_dir = 1.0, stat.S_ISDIR(found.st_mode)
        if not is_dir and found.st_nlink > 1:
            if found.st_ino in self._linked:
                return False
            if len(self._linked) < _MOST_LINKED:
                self._linked.add(found.st_ino)
            else:
                share = 1 / found.st_nlink
        self._blocks += share * found.st_blocks
        self._inodes += share
        return is_dir


class _Level(Struct):
    """An open directory on the current path."""

    fd: int
    last: str = ""
    """The name of the subdirectory that was entered last."""
    pending: deque[str] = field(default_factory=deque)
    more: bool = False
    """Whether there are subdirectories after the pending ones."""
