"""Notices changes of files, by inotify watches of their directories."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from pykubelet.base.files.path_watch import PathWatch

Stamp: TypeAlias = tuple[int, int, int, int]
"""Device, inode, size and modification time of a file; zeros if it is missing."""
Stamps: TypeAlias = Mapping[Path, Stamp]


def stamps_of(paths: Iterable[Path]) -> Stamps:
    """The stamps of files; they change whenever the files do. Blocks."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0, 0)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def file_watch(files: Iterable[Path]) -> PathWatch:
    """Return a watch of files that are written, replaced or removed."""
    from asyncinotify import Mask

    changes = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CREATE
    return PathWatch("configuration", changes, files=files)
