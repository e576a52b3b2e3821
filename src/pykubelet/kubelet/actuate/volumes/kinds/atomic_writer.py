"""Writes the files of configMap, secret, downwardAPI and projected volumes, so that they change atomically.

The layout is that of Kubernetes; programs in containers rely on it (they watch `..data`):

    ..2026_11_21_04_05_06.1234567890/key      the files, in a directory made for one version of the content
    ..data -> ..2026_11_21_04_05_06.1234567890
    key -> ..data/key                         what users open; one link for each first component of a path

A new version is complete before `rename` replaces `..data`, so a reader through `..data` gets one version, never a
mixture. The writer may crash after any step: the next call cleans up. Rule: Kubernetes documentation, "Mounted
ConfigMaps are updated automatically".
"""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pykubelet.base.clock import utc
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.plan.payload import FileProjection, Payload, clean_payload
from pykubelet.linux.filesystems.removal import remove_tree_at

DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"
_VERSION = re.compile(r"\.\.\d{4}(?:_\d\d){5}\.\d+")
_DIRECTORY_MODE: Final = 0o755
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_payload(
    target: str | os.PathLike[str], payload: Payload, *, now: Seconds, fs_group: int | None = None
) -> bool:
    """Make the directory contain exactly these files; return whether its content changed. Blocks.

    With `fs_group` the files belong to that group, which may read them. `now` (Unix seconds) becomes part of the
    version's name. Raises Invalid for an invalid path, and OSError. Calls for one directory must not overlap.
    """
    files = clean_payload(payload)
    with _opened(target) as root:
        current = _current_version(root)
        changed = current is None or not _has_content(root, current, files)
        if changed:
            current = _new_version(root, files, now, fs_group)
            with suppress(FileNotFoundError):
                os.unlink(_NEW_DATA, dir_fd=root)  # leftover of a crash
            os.symlink(current, _NEW_DATA, dir_fd=root)
            os.rename(_NEW_DATA, DATA, src_dir_fd=root, dst_dir_fd=root)
        _link(root, {path.partition("/")[0] for path in files})
        assert current is not None
        _remove_stale(root, current)
        return changed


@contextmanager
def _opened(path: str | os.PathLike[str], dir_fd: int | None = None) -> Iterator[int]:
    fd = os.open(path, _OPEN, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _current_version(root: int) -> str | None:
    """Name of the directory that `..data` points to; None if there is no valid one."""
    try:
        target = os.readlink(DATA, dir_fd=root)
    except FileNotFoundError:
        return None
    return target if _VERSION.fullmatch(target) else None


def _has_content(root: int, version: str, files: Payload) -> bool:
    """Whether the directory of the version has exactly these files with this content."""
    try:
        with _opened(version, root) as directory:
            return set(_walk(directory)) == files.keys() and all(
                _same(directory, path, projection.data) for path, projection in files.items()
            )
    except (FileNotFoundError, NotADirectoryError):
        return False


def _walk(directory: int) -> Iterator[str]:
    """Paths of all files below a version's directory; iterative, since the pod decides on the depth."""
    todo = [""]
    while todo:
        prefix = todo.pop()
        with _opened(prefix or ".", directory) as inner, os.scandir(inner) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(f"{prefix}{entry.name}/")
                else:
                    yield prefix + entry.name


def _same(directory: int, path: str, data: bytes) -> bool:
    try:
        fd = os.open(path, _READ, dir_fd=directory)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        return stat.S_ISREG(info.st_mode) and info.st_size == len(data) and file.read(len(data) + 1) == data


def _new_version(root: int, files: Payload, now: Seconds, fs_group: int | None) -> str:
    """Write all files into a new directory, which no link points to yet; return its name."""
    name = utc(now).strftime("..%Y_%m_%d_%H_%M_%S.") + str(secrets.randbelow(2**32))
    _make_directory(root, name, fs_group)
    with _opened(name, root) as directory:
        made: set[str] = set()
        for path, projection in files.items():
            for end in (i for i, char in enumerate(path) if char == "/"):
                if path[:end] not in made:
                    made.add(path[:end])
                    _make_directory(directory, path[:end], fs_group)
            _write_file(directory, path, projection, fs_group)
    return name


def _make_directory(parent: int, name: str, fs_group: int | None) -> None:
    os.mkdir(name, 0o700, dir_fd=parent)
    mode = _DIRECTORY_MODE
    if fs_group is not None:
        os.chown(name, -1, fs_group, dir_fd=parent, follow_symlinks=False)
        mode |= 0o550 | stat.S_ISGID
    os.chmod(name, mode, dir_fd=parent)


def _write_file(directory: int, path: str, projection: FileProjection, fs_group: int | None) -> None:
    mode = projection.mode
    fd = os.open(path, _CREATE, 0o600, dir_fd=directory)
    with os.fdopen(fd, "wb", buffering=0) as file:
        data = memoryview(projection.data)
        while data:
            data = data[os.write(fd, data) :]
        if fs_group is not None:
            mode |= 0o440
        if fs_group is not None or projection.uid is not None:
            os.fchown(fd, -1 if projection.uid is None else projection.uid, -1 if fs_group is None else fs_group)
        os.fchmod(file.fileno(), mode)  # after chown, which drops setuid bits; the umask does not apply


def _link(root: int, names: set[str]) -> None:
    """Create the links that users open; existing entries are kept, as they may be mount points of other volumes."""
    for name in sorted(names):
        with suppress(FileExistsError):
            os.symlink(f"{DATA}/{name}", name, dir_fd=root)


def _remove_stale(root: int, current: str) -> None:
    """Remove links to missing files, and versions that are not current."""
    with os.scandir(root) as entries, _opened(current, root) as directory:
        with os.scandir(directory) as inside:
            shown = {entry.name for entry in inside}
        for entry in entries:
            if entry.is_symlink():
                stale = entry.name not in shown and entry.name not in (DATA, _NEW_DATA)
                if (stale and os.readlink(entry.name, dir_fd=root) == f"{DATA}/{entry.name}") or (
                    entry.name == _NEW_DATA
                ):
                    os.unlink(entry.name, dir_fd=root)
            elif entry.name != current and _VERSION.fullmatch(entry.name):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree_at(root, entry.name)
                else:
                    os.unlink(entry.name, dir_fd=root)  # in the place of a damaged version
