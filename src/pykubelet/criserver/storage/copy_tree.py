# ruff: noqa: PTH101, PTH116
# Every call is relative to an open directory, which Path objects cannot express.
"""Copies a directory tree of an image: the content of a volume, into a directory of the host. Blocking.

The tree is hostile, but nothing changes it meanwhile: no process of its container runs yet. Every step is relative to
an open directory, and no link is followed. Directories are entered while the one above is being read. So that depth
costs few descriptors, only the highest ``_OPEN_LEVELS`` are read like this; below, the names of the subdirectories are
kept instead, and their number is limited. So is the memory for the first names of files with several hard links: to
copy such a file once for each name would fill the disk.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Generator
from typing import Final

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import MIB

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE: Final = 8 << 20
"""Bytes that are copied before the copy can be stopped."""
_OPEN_LEVELS: Final = 32
_MOST_NAMES: Final = 1 << 16
"""Names of subdirectories below those levels that are kept."""
_MOST_LINKED: Final = 64 * MIB
"""Memory for the first names of files with several hard links."""
_LINKED: Final = 400
"""Bytes of memory that one costs at most beside the bytes of its path."""
_REMEDY: Final = "mount a volume of the pod there, and the content is not copied"
_SKIPPED: Final = ("security.selinux", "trusted.overlay.", "user.overlay.")
"""Attributes that belong to the place of a file, or control overlayfs."""
_NO_ATTRIBUTES: Final = (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL)
"""Links and devices cannot have user attributes, and not every file system supports all kinds."""


def copy_tree(
    source: int, target: int, *, stopped: Callable[[], bool] = lambda: False, without: Collection[str] = ()
) -> None:
    """Copy what is in a directory, and its own attributes, into an empty one; both are given as descriptors.

    Kept are owner, mode, modification time, extended attributes, hard links inside the tree, holes, links and devices.
    ``without``: directories, relative to the source, whose content is not copied. ``stopped`` is called at every step.
    Raises OSError of the file system (ENOSPC), Transient if ``stopped`` says so, Invalid if the tree has more hard
    links or directories than the memory allows.
    """
    copy = _Copy(source, target, stopped=stopped, without=without)
    try:
        copy.run()
    finally:
        copy.close()


class _Copy:
    """The current directory of both trees, and the names that lead to it."""

    def __init__(self, source: int, target: int, *, stopped: Callable[[], bool], without: Collection[str]) -> None:
        self._root = target
        self._without = without
        self._source, self._target = os.dup(source), os.dup(target)
        self._stopped = stopped
        self._path: list[str] = []
        self._levels: list[Generator[str, None, None]] = []
        """For each directory on the path: its remaining entries."""
        self._names = 0
        """Names of subdirectories that are kept."""
        self._linked: dict[tuple[int, int], tuple[bytes, int]] = {}
        """Files with several names, of which some are still to come: the path of the first one, below the root of the
        copy, and the number of those to come."""
        self._linked_bytes = 0

    def close(self) -> None:
        for level in self._levels:
            level.close()
        os.close(self._source)
        os.close(self._target)

    def run(self) -> None:
        self._levels.append(self._entries())
        while self._levels:
            name = next(self._levels[-1], None)
            if name is not None:
                self._enter(name)
                continue
            _attributes(_of(self._source), _of(self._target), follow=True)
            self._levels.pop()
            if self._levels:
                self._path.pop()
                self._move("..")

    def _entries(self) -> Generator[str, None, None]:
        """Copy what is not a directory; yield the names of directories while this is the current one."""
        with os.scandir(self._source) as entries:
            for entry in entries:
                self._check()
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name
                else:
                    self._copy(entry.name)

    def _kept(self) -> Generator[str, None, None]:
        """Copy like ``_entries``, but read the whole directory first."""
        names: list[str] = []
        for name in self._entries():
            names.append(name)
            self._names += 1
            if self._names > _MOST_NAMES:
                raise Invalid(f"more than {_MOST_NAMES} directories {_OPEN_LEVELS} levels deep; {_REMEDY}")
        while names:
            self._names -= 1
            yield names.pop()

    def _enter(self, name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=self._target)
        self._move(name)
        self._path.append(name)
        if "/".join(self._path) in self._without:
            self._levels.append(_nothing())
        else:
            self._levels.append(self._entries() if len(self._path) < _OPEN_LEVELS else self._kept())

    def _check(self) -> None:
        if self._stopped():
            raise Transient("the copy was stopped")

    def _move(self, name: str) -> None:
        source = os.open(name, _OPEN, dir_fd=self._source)
        os.close(self._source)
        self._source = source
        target = os.open(name, _OPEN, dir_fd=self._target)
        os.close(self._target)
        self._target = target

    def _copy(self, name: str) -> None:
        facts = os.stat(name, dir_fd=self._source, follow_symlinks=False)
        if facts.st_nlink > 1 and self._link(name, facts):
            return
        if stat.S_ISREG(facts.st_mode):
            self._copy_file(name)
            return
        if stat.S_ISLNK(facts.st_mode):
            os.symlink(os.readlink(name, dir_fd=self._source), name, dir_fd=self._target)
        else:
            os.mknod(name, stat.S_IFMT(facts.st_mode) | 0o600, facts.st_rdev, dir_fd=self._target)
        _attributes(f"{_of(self._source)}/{name}", f"{_of(self._target)}/{name}", follow=False)

    def _link(self, name: str, facts: os.stat_result) -> bool:
        """Link a further name of a file to the first one; returns False if this is the first."""
        key = (facts.st_dev, facts.st_ino)
        first, left = self._linked.get(key, (b"", 0))
        if not first:
            first = os.fsencode("/".join([*self._path, name]))
            self._linked_bytes += _LINKED + len(first)
            if self._linked_bytes > _MOST_LINKED:
                raise Invalid(f"hard links whose first names need more than {_MOST_LINKED >> 10} KiB; {_REMEDY}")
            self._linked[key] = first, facts.st_nlink - 1
            return False
        os.link(first, name, src_dir_fd=self._root, dst_dir_fd=self._target, follow_symlinks=False)
        if left > 1:
            self._linked[key] = first, left - 1
        else:
            del self._linked[key]
            self._linked_bytes -= _LINKED + len(first)
        return True

    def _copy_file(self, name: str) -> None:
        source = os.open(name, _READ, dir_fd=self._source)
        try:
            target = os.open(name, _NEW, 0o600, dir_fd=self._target)
            try:
                self._copy_data(source, target)
                _attributes(_of(source), _of(target), follow=True)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _copy_data(self, source: int, target: int) -> None:
        """Copy the segments with data; holes stay holes."""
        size = os.fstat(source).st_size
        os.ftruncate(target, size)
        end = 0
        while end < size:
            try:
                start = os.lseek(source, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return  # only a hole follows
                raise
            end = os.lseek(source, start, os.SEEK_HOLE)
            os.lseek(target, start, os.SEEK_SET)
            while start < end:
                self._check()
                sent = os.sendfile(target, source, start, min(end - start, _PIECE))
                if sent == 0:
                    raise OSError(errno.EIO, "a file of the image ended before its size")
                start += sent


def _nothing() -> Generator[str, None, None]:
    yield from ()


def _of(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _attributes(source: str, target: str, *, follow: bool) -> None:
    """Give a new file the attributes of its original. ``follow``: the paths are those of descriptors themselves."""
    facts = os.stat(source, follow_symlinks=follow)
    os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=follow)
    if not stat.S_ISLNK(facts.st_mode):
        # After chown, which clears the bits of set-user-ID programs.
        os.chmod(target, stat.S_IMODE(facts.st_mode))
    for key in os.listxattr(source, follow_symlinks=follow):
        if not key.startswith(_SKIPPED):
            _copy_attribute(source, target, key, follow=follow)
    os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns), follow_symlinks=follow)


def _copy_attribute(source: str, target: str, key: str, *, follow: bool) -> None:
    try:
        os.setxattr(target, key, os.getxattr(source, key, follow_symlinks=follow), follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
