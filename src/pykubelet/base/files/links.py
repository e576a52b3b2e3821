"""The directory entries that decide where a path leads: the symbolic links on the way to it."""

import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

_MOST_LINKS: Final = 40
"""As many as the kernel follows."""
_NOTHING: Final = (0, 0)


class PathEntry(Struct, frozen=True):
    """A directory entry on the way to a file or directory."""

    path: Path
    """Its name in the real path of its directory."""
    identity: tuple[int, int]
    """Device and inode: of a link or directory its own, of another file those of its directory; zeros if missing."""
    is_link: bool
    decides: bool
    """The path leads elsewhere when this entry is replaced, created or removed."""


def entries_to(path: Path, *, directory: bool = False) -> tuple[PathEntry, ...]:
    """Return each symbolic link on the way to a path, then what it leads to, or the first entry that is missing.

    A missing entry decides if it has to be a directory: on the way, or with ``directory`` at the end. Blocks. Raises
    OSError if an entry cannot be looked at.
    """
    path = path.absolute()
    place, rest, found = Path(path.anchor), list(reversed(path.parts[1:])), list[PathEntry]()
    while rest and len(found) <= _MOST_LINKS:
        name = rest.pop()
        if name == os.pardir:
            place = place.parent
            continue
        entry = place / name
        try:
            info = entry.lstat()
            target = entry.readlink() if stat.S_ISLNK(info.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            found.append(PathEntry(entry, _NOTHING, is_link=False, decides=directory or bool(rest)))
            break
        identity = (info.st_dev, info.st_ino)
        if target is not None:
            found.append(PathEntry(entry, identity, is_link=True, decides=True))
            place = Path(target.anchor) if target.is_absolute() else place
            rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            continue
        if not rest:
            if not stat.S_ISDIR(info.st_mode):
                info = place.lstat()
                identity = (info.st_dev, info.st_ino)
            found.append(PathEntry(entry, identity, is_link=False, decides=False))
        place = entry
    return tuple(found)
