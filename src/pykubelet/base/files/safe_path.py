"""Safe path resolution inside a directory whose content a pod controls: a volume, a log directory, a root file system.

Checking a path and then using it is a race (CVE-2021-25741): the pod may replace a directory by a symlink in
between. So every step here opens one component relative to the descriptor of its parent and lets the kernel follow no
link. Links are read and resolved inside the root, as openat2's RESOLVE_IN_ROOT does; `..` goes back to the descriptor
of the parent, so it cannot leave the root, even if directories are moved. The caller uses the returned descriptor, or
`proc_path(fd)` where a system call needs a path.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pykubelet.base.errors import Conflict, Invalid, NotFound

MAX_SYMLINKS = 40
MAX_DEPTH = 256

_WALK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def proc_path(fd: int) -> str:
    """A path that names exactly the file of the descriptor, for mount(2) and similar calls."""
    return f"/proc/self/fd/{fd}"


def open_in_root(root: str | os.PathLike[str], relative: str, flags: int, mode: int = 0o600) -> int:
    """Open `relative` as if `root` were `/`; links are followed but never lead out. Returns a descriptor.

    `flags` are those of open(2); O_CREAT creates a missing last component with `mode`. With O_NOFOLLOW a link as the
    last component is opened itself (O_PATH) or refused. Raises NotFound, Invalid (link loop, too deep, not a
    directory), or OSError from the kernel (permissions, for example). The caller closes the descriptor.
    """
    with _Walk(root, relative) as walk:
        while walk.pending:
            name = walk.pending.popleft()
            if not walk.pending and flags & os.O_CREAT:
                fd = walk.create(name, flags, mode)
                if fd is not None:
                    return fd
            walk.enter(name, follow=bool(walk.pending) or not flags & os.O_NOFOLLOW)
        return _reopen(walk.current, flags & ~(os.O_CREAT | os.O_EXCL), walk.describe)


def open_beneath_no_symlinks(root: str | os.PathLike[str], relative: str, flags: int) -> int:
    """Open `relative` below `root`, refusing links and `..` with Invalid. Returns a descriptor."""
    with _Walk(root, relative) as walk:
        while walk.pending:
            name = walk.pending.popleft()
            if name == "..":
                raise Invalid(f"{walk.describe}: '..' is not allowed here")
            walk.enter(name, follow=False)
            if stat.S_ISLNK(os.fstat(walk.current).st_mode):
                raise Invalid(f"{walk.describe}: {name!r} is a symbolic link, which is not allowed here")
        return _reopen(walk.current, flags, walk.describe)


def open_regular_in_root(root: str | os.PathLike[str], relative: str, flags: int = os.O_RDONLY) -> int:
    """Open an existing regular file inside the root; any other type is Invalid. Returns a descriptor.

    The type is checked with O_PATH before the file is opened: a FIFO cannot block, and no device is opened.
    """
    pinned = open_in_root(root, relative, os.O_PATH)
    try:
        if not stat.S_ISREG(os.fstat(pinned).st_mode):
            raise Invalid(f"{relative!r} in {os.fspath(root)} is not a regular file")
        return _reopen(pinned, flags, f"{relative!r} in {os.fspath(root)}")
    finally:
        os.close(pinned)


@contextmanager
def directory_at(above: int, name: str) -> Iterator[int]:
    """Open the directory ``name``, a single name and no link, in that of a descriptor; yield a descriptor.

    Raises OSError (ENOTDIR for a link), Invalid for an invalid name. The descriptor is closed at the end.
    """
    if not _is_name(name):
        raise Invalid(f"{name!r} cannot be the name of a directory")
    fd = os.open(name, _CREATED, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


@contextmanager
def directory_in_root(root: str | os.PathLike[str], *names: str, make: int | None = None) -> Iterator[int]:
    """Open the directory ``names[0]/names[1]/…`` below ``root``, each a single name and no link; yield a descriptor.

    With ``make``, missing directories are created with that mode, less the umask. The root itself is trusted and may be
    a link. Raises OSError (ENOTDIR for a link), Invalid for an invalid name. The descriptor is closed at the end.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            if not _is_name(name):
                raise Invalid(f"{name!r} cannot be the name of a directory in {os.fspath(root)}")
            if make is not None:
                with suppress(FileExistsError):
                    os.mkdir(name, make, dir_fd=fd)
            below = os.open(name, _CREATED, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def open_regular_at(directory: int, name: str, flags: int = os.O_RDONLY) -> int:
    """Open the regular file ``name`` in the directory of a descriptor. Returns a descriptor.

    Any other type, links included, is Invalid and only opened with O_PATH: a FIFO cannot block. Raises OSError.
    """
    pinned = os.open(name, _WALK, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(pinned).st_mode):
            raise Invalid(f"{name!r} is not a regular file")
        return _reopen(pinned, flags, repr(name))
    finally:
        os.close(pinned)


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes; links are followed.

    Files of other types are only opened with O_PATH: a FIFO cannot block. Raises OSError: the file does not exist, is
    not a regular file (EINVAL), or is longer than the limit (EFBIG).
    """
    pinned = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(pinned)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if found.st_size > limit:
            raise OSError(errno.EFBIG, f"longer than {limit} bytes", os.fspath(path))
        fd = os.open(proc_path(pinned), os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(pinned)
    with open(fd, "rb") as file:
        data = file.read(limit + 1)
    # A file that grows, or one of the kernel's file systems, has more bytes than its size says.
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"longer than {limit} bytes", os.fspath(path))
    return data


def mkdir_in_root(root: str | os.PathLike[str], relative: str, mode: int = 0o750) -> int:
    """Create the directory `relative` and its missing parents inside the root; returns an O_PATH descriptor of it.

    New directories get exactly `mode`; existing ones are left as they are. A component that exists and is not a
    directory is a Conflict. Links, including dangling ones, are resolved inside the root.
    """
    with _Walk(root, relative) as walk:
        while walk.pending:
            name = walk.pending.popleft()
            try:
                walk.enter(name, follow=True)
            except NotFound:
                walk.make_directory(name, mode)
        if not stat.S_ISDIR(os.fstat(walk.current).st_mode):
            raise Conflict(f"{walk.describe} exists and is not a directory")
        return os.dup(walk.current)


class _Walk:
    """A path resolution: the descriptors from the root down to the current component, and the pending components."""

    def __init__(self, root: str | os.PathLike[str], relative: str) -> None:
        if "\0" in relative:
            raise Invalid(f"path {relative!r} contains a NUL byte")
        self.describe = f"{relative!r} in {os.fspath(root)}"
        self.pending: deque[str] = deque(_components(relative))
        self._root = root
        self._links = 0
        self._stack: list[int] = []

    def __enter__(self) -> "_Walk":
        try:
            self._stack.append(os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        except FileNotFoundError as error:
            raise NotFound(f"the root directory of {self.describe} does not exist") from error
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._stack:
            os.close(fd)
        self._stack.clear()

    @property
    def current(self) -> int:
        return self._stack[-1]

    def enter(self, name: str, *, follow: bool) -> None:
        """Enter one component. A link that is followed puts its target in front of the pending components."""
        if name == "..":
            if len(self._stack) > 1:
                os.close(self._stack.pop())
            return
        fd = self._open(name)
        if follow and stat.S_ISLNK(os.fstat(fd).st_mode):
            try:
                target = os.readlink("", dir_fd=fd)
            finally:
                os.close(fd)
            self._follow(target)
            return
        self._push(fd)

    def create(self, name: str, flags: int, mode: int) -> int | None:
        """Create the last component as a file; None if it exists already and has to be entered."""
        if name == "..":
            return None
        new = flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(name, new, mode, dir_fd=self.current)
        except FileExistsError as error:
            if flags & os.O_EXCL:
                raise Conflict(f"{self.describe} exists already") from error
            return None
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"the directory of {self.describe} does not exist") from error

    def make_directory(self, name: str, mode: int) -> None:
        """Create a directory here and enter it; if another process created it first, enter that one."""
        try:
            os.mkdir(name, mode, dir_fd=self.current)
        except FileExistsError:
            self._links += 1  # bounds a race with a process that keeps creating and removing it
            self._check_links()
            self.pending.appendleft(name)
            return
        try:
            fd = os.open(name, _CREATED, dir_fd=self.current)
        except OSError as error:
            raise Conflict(f"{self.describe}: {name!r} was replaced while being made") from error
        try:
            os.fchmod(fd, mode)  # the umask does not apply
        except OSError:
            os.close(fd)
            raise
        self._push(fd)

    def _push(self, fd: int) -> None:
        if len(self._stack) > MAX_DEPTH:
            os.close(fd)
            raise Invalid(f"{self.describe} is more than {MAX_DEPTH} directories deep")
        self._stack.append(fd)

    def _open(self, name: str) -> int:
        try:
            return os.open(name, _WALK, dir_fd=self.current)
        except FileNotFoundError as error:
            raise NotFound(f"{self.describe} does not exist: no {name!r}") from error
        except NotADirectoryError as error:
            raise Invalid(f"{self.describe}: the parent of {name!r} is not a directory") from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise Invalid(f"{self.describe}: a component is too long") from error
            raise

    def _follow(self, target: str) -> None:
        self._links += 1
        self._check_links()
        if target.startswith("/"):
            while len(self._stack) > 1:
                os.close(self._stack.pop())
        self.pending.extendleft(reversed(_components(target)))

    def _check_links(self) -> None:
        if self._links > MAX_SYMLINKS:
            raise Invalid(f"{self.describe}: more than {MAX_SYMLINKS} symbolic links on the way")


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _reopen(pinned: int, flags: int, describe: str) -> int:
    """Open exactly the file of an O_PATH descriptor again, with other flags."""
    if flags & os.O_PATH:
        kind = os.fstat(pinned).st_mode
        if flags & os.O_DIRECTORY and not stat.S_ISDIR(kind):
            raise Invalid(f"{describe} is not a directory")
        return os.dup(pinned)
    if stat.S_ISLNK(os.fstat(pinned).st_mode):
        raise Invalid(f"{describe} is a symbolic link")
    try:
        return os.open(proc_path(pinned), (flags & ~os.O_NOFOLLOW) | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise Invalid(f"{describe} is not a directory") from error


def close_quietly(fd: int) -> None:
    """Close a descriptor and ignore the error, for clean-up that cannot handle one."""
    with suppress(OSError):
        os.close(fd)
