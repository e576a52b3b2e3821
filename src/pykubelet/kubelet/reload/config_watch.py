"""inotify watch of the configuration file and the drop-in directory; no other module of reloads uses inotify."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.files.links import links_to
from pykubelet.kubelet.reload.plan.settling import FileChange

Note = Callable[[str, FileChange], None]
_DATA_LINK: Final = "..data"
"""The symbolic link that a ConfigMap volume replaces to update all its files at once."""
_SUFFIX: Final = ".conf"
_MOST_PLACES: Final = 1000
"""Directories that are watched; beyond, the periodic check has to do."""


async def watch(file: Path | None, directory: Path | None, note: Note) -> None:
    """Report changes of the files until a directory or link on the way to them has changed; then call it again.

    Changes before the first report may be missed: check the files once when they are watched. Raises Transient if a
    directory cannot be watched.
    """
    from asyncinotify import Inotify, Mask  # costs memory only where files are watched

    changes = (
        (Mask.MOVED_TO | Mask.CLOSE_WRITE, FileChange.COMPLETE),
        (Mask.CREATE | Mask.MODIFY, FileChange.WRITTEN),
        (Mask.MOVED_FROM | Mask.DELETE | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT, FileChange.VANISHED),
    )
    names = {path.name for path in links_to(file)} if file is not None else set()
    try:
        inotify = Inotify()
    except OSError as error:
        raise Transient(f"no inotify: {error.strerror}; is fs.inotify.max_user_instances too low?") from error
    with inotify:
        for place in await blocking.call("configuration", _places, file, directory):
            try:
                inotify.add_watch(place, changes[0][0] | changes[1][0] | changes[2][0] | Mask.ONLYDIR)
            except OSError as error:
                raise Transient(f"{place}: cannot be watched: {error.strerror}") from error
        note("", FileChange.COMPLETE)
        while True:
            event = await inotify.get()
            name = str(event.name) if event.name else ""
            change = next((change for mask, change in changes if event.mask & mask), FileChange.COMPLETE)
            moved = not name or name == _DATA_LINK or bool(event.mask & (Mask.ISDIR | Mask.Q_OVERFLOW | Mask.IGNORED))
            if moved or name in names or name.endswith(_SUFFIX):
                # A new directory is complete when its files are: those are seen by the next watch.
                note(name, FileChange.VANISHED if event.mask & Mask.ISDIR else change)
            entry = bool(event.mask & (Mask.CREATE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE))
            if moved or (entry and event.path is not None and event.path.is_symlink()):
                return


def _places(file: Path | None, directory: Path | None) -> list[Path]:
    """Return the directories in which a change may concern the configuration. Raises Transient. Blocks."""
    try:
        found = list(dict.fromkeys(islice(_directories(file, directory), _MOST_PLACES + 1)))
    except OSError as error:
        raise Transient(f"{error.filename}: cannot be watched: {error.strerror}") from error
    except RecursionError as error:
        raise Transient(f"{directory}: directories are nested too deeply to be watched") from error
    if len(found) > _MOST_PLACES:
        raise Transient(f"{directory}: has more than {_MOST_PLACES} directories and links; a part would not be watched")
    return found


def _directories(file: Path | None, directory: Path | None) -> Iterator[Path]:
    """Yield the directories in which a change may concern the configuration."""
    if file is not None:
        yield from dict.fromkeys(link.parent for link in links_to(file))
    if directory is not None:
        yield directory
        for path in sorted(directory.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                yield path
            elif path.is_symlink() and path.name.endswith(_SUFFIX):
                yield from dict.fromkeys(link.parent for link in links_to(path))
