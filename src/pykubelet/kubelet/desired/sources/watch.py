"""inotify watch of a manifest directory or a single manifest; no other module of the sources uses inotify."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.files.path_watch import PathWatch
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.kubelet.desired.sources.plan.pending_reads import ManifestChange

Note = Callable[[str, ManifestChange], None]
DATA_LINK: Final = "..data"
"""The symbolic link that a ConfigMap volume replaces to update all its files at once."""


async def watch(path: Path, note: Note, everything: Callable[[], None]) -> None:
    """Report changes until the path leads elsewhere (moved, removed, replaced, created); then call it again.

    ``everything`` is called when all files must be read: first when the watch is set up, and whenever events were
    lost. Raises Transient if the watch cannot be set up.
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
    is_directory = await blocking.call("manifests", path.is_dir)
    paths = {"directories": (path,)} if is_directory else {"files": (path,)}
    async with PathWatch("manifests", whole, **paths) as watched:
        everything()
        if await blocking.call("manifests", path.is_dir) != is_directory:
            return
        while True:
            change = await watched.next()
            if change.elsewhere or (change.file is not None and change.mask & Mask.ISDIR):
                everything()
                return
            if is_directory and change.name == DATA_LINK:
                everything()
            elif change.file is not None or is_plain_name(change.name):
                kind = next((kind for mask, kind in changes if change.mask & mask), None)
                if kind is not None and not change.mask & Mask.ISDIR:
                    note(path.name if change.file is not None else change.name, kind)
