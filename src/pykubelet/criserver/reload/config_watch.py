"""Notices changes of files, by inotify watches of their directories."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from pykubelet.base.errors import Transient
from pykubelet.base.files.links import links_to

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


def links_of(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths and, of symbolic links, each path that they lead to. Blocks."""
    return tuple(link for path in paths for link in links_to(path))


class FileWatch:
    """Watches the directories of files and links."""

    def __init__(self, links: Collection[Path]) -> None:
        """Raises Transient if a directory cannot be watched."""
        from asyncinotify import Inotify, Mask

        self._names = {link.name for link in links}
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise Transient(f"no inotify: {error.strerror}; is fs.inotify.max_user_instances too low?") from error
        changes = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.CREATE | Mask.MOVE_SELF
        for place in dict.fromkeys(link.parent for link in links):
            try:
                self._inotify.add_watch(place, changes | Mask.DELETE_SELF | Mask.ONLYDIR)
            except OSError as error:
                self._inotify.close()
                raise Transient(f"{place}: cannot be watched: {error.strerror}") from error

    def __enter__(self) -> "FileWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self._inotify.close()

    async def changed(self) -> None:
        """Wait until one of the files, or a link or directory on the way to it, may have changed."""
        while True:
            event = await self._inotify.get()
            name = str(event.name) if event.name else ""
            # The data directory of a ConfigMap volume is replaced by a link of this name.
            if not name or name in self._names or name == "..data":
                return
