"""inotify watch of a manifest directory or a single manifest; no other module of the sources uses inotify."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.kubelet.desired.sources.plan.pending_reads import ManifestChange

Note = Callable[[str, ManifestChange], None]
DATA_LINK: Final = "..data"
"""The symbolic link that a ConfigMap volume replaces to update all its files at once."""


async def watch(path: Path, note: Note, everything: Callable[[], None]) -> None:
    """Report changes until the watch no longer matches the path (moved, removed, replaced); then call it again.

    ``everything`` is called when all files must be read: first when the watch is set up, and whenever events were
    lost. If ``path`` does not exist yet, its directory is watched. Raises Transient if the watch cannot be set up.
    """
    from asyncinotify import Inotify, Mask  # costs memory only where a directory is watched

    whole = Mask.MOVED_TO | Mask.CLOSE_WRITE | Mask.MODIFY | Mask.CREATE | Mask.ATTRIB | Mask.MOVED_FROM | Mask.DELETE
    ended = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED
    changes = (
        (Mask.MOVED_TO, ManifestChange.MOVED_IN),
        (Mask.CLOSE_WRITE, ManifestChange.CLOSED),
        (Mask.CREATE | Mask.MODIFY, ManifestChange.WRITTEN),
        (Mask.MOVED_FROM, ManifestChange.VANISHED),
        (Mask.DELETE, ManifestChange.DELETED),
        (Mask.ATTRIB, ManifestChange.TOUCHED),
    )
    is_directory = path.is_dir()
    directory = path if is_directory else path.parent
    try:
        inotify = Inotify()
    except OSError as error:
        raise Transient(f"no inotify: {error.strerror}; is fs.inotify.max_user_instances too low?") from error
    with inotify:
        try:
            inotify.add_watch(directory, whole | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR)
        except OSError as error:
            raise Transient(f"{directory}: cannot be watched: {error.strerror}") from error
        everything()
        if path.is_dir() != is_directory:
            return
        while True:
            event = await inotify.get()
            name = str(event.name) if event.name else ""
            if event.mask & ended:
                everything()
                return
            if event.mask & Mask.Q_OVERFLOW or (is_directory and name == DATA_LINK):
                everything()
            elif not is_directory and name == path.name and path.is_dir():
                return
            elif is_plain_name(name) if is_directory else name == path.name:
                change = next((change for mask, change in changes if event.mask & mask), None)
                if change is not None and not event.mask & Mask.ISDIR:
                    note(name, change)
