"""Watch of the configuration file and the drop-in directory; no other module of reloads uses inotify."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.files.path_watch import PathWatch
from pykubelet.kubelet.reload.plan.settling import FileChange

Note = Callable[[str, FileChange], None]
_DATA_LINK: Final = "..data"
"""The symbolic link that a ConfigMap volume replaces to update all its files at once."""
_SUFFIX: Final = ".conf"
_MOST_PLACES: Final = 1000
"""Files and directories that are watched; beyond, the periodic check has to do."""


async def watch(file: Path | None, directory: Path | None, note: Note) -> None:
    """Report changes of the files until a directory or link on the way to them has changed; then call it again.

    Changes before the first report may be missed: check the files once when they are watched. Raises Transient if a
    directory cannot be watched.
    """
    from asyncinotify import Mask  # costs memory only where files are watched

    changes = (
        (Mask.MOVED_TO | Mask.CLOSE_WRITE, FileChange.COMPLETE),
        (Mask.CREATE | Mask.MODIFY, FileChange.WRITTEN),
        (Mask.MOVED_FROM | Mask.DELETE | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT, FileChange.VANISHED),
    )
    every = changes[0][0] | changes[1][0] | Mask.MOVED_FROM | Mask.DELETE
    files, directories = await blocking.call("configuration", _places, file, directory)
    async with PathWatch("configuration", every, files=files, directories=directories) as watched:
        note("", FileChange.COMPLETE)
        while True:
            event = await watched.next()
            change = next((change for mask, change in changes if event.mask & mask), FileChange.COMPLETE)
            entry = event.mask & (Mask.CREATE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE)
            of_directory = bool(event.mask & Mask.ISDIR) or event.name == _DATA_LINK
            moved = event.elsewhere or (event.file is None and of_directory)
            if moved or event.file is not None or event.name.endswith(_SUFFIX):
                # A new directory is complete when its files are: those are seen by the next watch.
                note(event.name, FileChange.VANISHED if event.mask & Mask.ISDIR else change)
            changed = event.path if entry else None
            if moved or (changed is not None and await blocking.call("configuration", changed.is_symlink)):
                return


def _places(file: Path | None, directory: Path | None) -> tuple[list[Path], list[Path]]:
    """Return the files, and the directories in which a change may concern the configuration. Raises Transient. Blocks.

    Of drop-in files, these are the ones that are symbolic links.
    """
    try:
        found = list(islice(_drop_ins(directory), _MOST_PLACES + 1)) if directory is not None else []
    except OSError as error:
        raise Transient(f"{error.filename}: cannot be watched: {error.strerror}") from error
    except RecursionError as error:
        raise Transient(f"{directory}: directories are nested too deeply to be watched") from error
    if len(found) > _MOST_PLACES:
        raise Transient(f"{directory}: has more than {_MOST_PLACES} directories and links; a part would not be watched")
    files = [file] if file is not None else []
    return files + [path for path, is_link in found if is_link], [path for path, is_link in found if not is_link]


def _drop_ins(directory: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the directory, those below it, and links to drop-in files; each with whether it is such a link."""
    yield directory, False
    for path in sorted(directory.rglob("*")):
        if path.is_symlink():
            if path.name.endswith(_SUFFIX):
                yield path, True
        elif path.is_dir():
            yield path, False
