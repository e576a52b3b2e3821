"""inotify watch of a manifest directory or a single manifest; no other module of the sources uses inotify."""

import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.files.path_watch import PathChange, PathWatch
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.kubelet.desired.sources.plan.pending_reads import ManifestChange

if TYPE_CHECKING:
    from asyncinotify import Mask

Note = Callable[[str, ManifestChange], None]
_OWNER: Final = "manifests"
_MOST_LINKS: Final = 1000
"""Links in the directory whose files are watched; changes of further ones are found by the periodic read."""


async def watch(path: Path, note: Note, everything: Callable[[], None]) -> None:
    """Report changes until the path, or a link in it, leads elsewhere (moved, removed, replaced, created).

    Then call it again. ``everything`` is called when all files must be read: first when the watch is set up, and
    whenever events were lost. Raises Transient if the watch cannot be set up.
    """
    from asyncinotify import Mask  # costs memory only where a directory is watched

    whole = Mask.MOVED_TO | Mask.CLOSE_WRITE | Mask.MODIFY | Mask.CREATE | Mask.ATTRIB | Mask.MOVED_FROM | Mask.DELETE
    changes = (
        (Mask.MOVED_TO, ManifestChange.MOVED_IN),
        (Mask.CLOSE_WRITE, ManifestChange.CLOSED),
        (Mask.CREATE | Mask.MODIFY, ManifestChange.WRITTEN),
        (Mask.MOVED_FROM, ManifestChange.VANISHED),
        (Mask.DELETE, ManifestChange.DELETED),
        (Mask.ATTRIB, ManifestChange.TOUCHED),
    )
    places = await blocking.call(_OWNER, _places, path)
    files = {file.name for file in places[0]}
    async with PathWatch(_OWNER, whole, files=places[0], directories=places[1]) as watched:
        everything()
        if await blocking.call(_OWNER, _places, path) != places:
            return
        while True:
            change = await watched.next()
            name = change.name if change.file is None else change.file.name
            kind = next((kind for mask, kind in changes if change.mask & mask), None)
            of_directory = bool(change.mask & Mask.ISDIR)
            if kind is not None and not of_directory and (name in files or _is_file(change)):
                note(name, kind)
            over = change.elsewhere or (change.file is not None and of_directory)
            if over or await _is_new_link(change, Mask.CREATE | Mask.MOVED_TO):
                everything()
                return


async def _is_new_link(change: PathChange, new: "Mask") -> bool:
    entry = change.path if change.mask & new else None
    return entry is not None and await blocking.call(_OWNER, entry.is_symlink)


def _is_file(change: PathChange) -> bool:
    """Whether a change that is not one of a known link is that of a manifest."""
    return not change.elsewhere and is_plain_name(change.name)


def _places(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and directories to watch; of a directory its links, too. Raises Transient. Blocks."""
    if not path.is_dir():
        return [path], []
    try:
        with os.scandir(path) as entries:
            links = (path / entry.name for entry in entries if entry.is_symlink() and is_plain_name(entry.name))
            return sorted(islice(filter(_may_be_file, links), _MOST_LINKS)), [path]
    except OSError as error:
        raise Transient(f"{path}: cannot be watched: {error.strerror}") from error


def _may_be_file(link: Path) -> bool:
    """Whether a link leads to a regular file, or to nothing yet. A way on which there is an error cannot be watched."""
    try:
        return stat.S_ISREG(link.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False
