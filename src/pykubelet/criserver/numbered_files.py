"""Files that others of a higher number follow while the file system cannot look them up: ``state.db``, ``state-2.db``.

ext4 and xfs refuse to look up an inode with a bad checksum. Until the file system is checked, such a file can be
neither opened, nor renamed, nor removed. ``ReplacementMark`` tells the next server of an interrupted replacement.
"""

import errno
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pykubelet.base.files.atomic import sync_directory
from pykubelet.base.files.retried_reads import read_again

_log = logging.getLogger(__name__)
_UNREADABLE = frozenset((errno.EIO, errno.EBADMSG, errno.EUCLEAN))
"""Error numbers for an inode that cannot be read, or has a bad checksum (ext4: EBADMSG, xfs: EUCLEAN)."""


class NumberedFiles(Struct, frozen=True):
    """The files of one name."""

    path: Path
    """The one to use: that of the highest number, or a new one if that cannot be looked up."""
    is_next: bool
    """Whether it is a new one for that reason."""
    unusable: tuple[Path, ...]
    """Those that cannot be looked up."""
    others: tuple[Path, ...]
    """Others that can. Which has the newest content is unknown: a check of the file system has repaired one, or a
    server of an older version, which knows one name only, has made it."""


class ReplacementMark:
    """A file that exists while the files of one name are replaced: all that are found beside it may be out of date.

    Without it, a server that is killed between two renames would leave one of them, which the next would use.
    """

    def __init__(self, path: Path) -> None:
        """``path``: the file of the first number."""
        self._path = path.with_name(f"{path.name}.replacing")

    def is_set(self) -> bool:
        """Whether a replacement has begun and not ended; also if the file system cannot look it up. Blocking."""
        try:
            read_again(self._path.lstat)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def set(self) -> None:
        """Begin a replacement. Blocking. OSError: for example, the disk is full."""
        if not self.is_set():
            self._path.touch(mode=0o600)
            sync_directory(self._path.parent)

    def clear(self) -> None:
        """End the replacement: a new file has been written. Blocking; a failure is logged."""
        if self.is_set():
            try:
                sync_directory(self._path.parent)
                self._path.unlink()
            except OSError as error:
                _log.error(
                    "mark of a replaced file cannot be removed: the next start replaces it again",
                    extra={"file": str(self._path), "error": str(error)},
                )


def find_numbered(path: Path, parts: Sequence[str] = ("",)) -> NumberedFiles:
    """Find the files; each may have ``parts``, whose names have these endings. Blocking. OSError: of the directory."""
    endings = "|".join(map(re.escape, parts))
    named = re.compile(rf"{re.escape(path.stem)}(?:-([1-9][0-9]{{0,8}}))?{re.escape(path.suffix)}(?:{endings})")
    names = os.listdir(path.parent)  # noqa: PTH208 - looks up no inode
    numbers = {int(match[1] or 1) for name in names if (match := named.fullmatch(name))}
    found = {number: _numbered(path, number) for number in sorted(numbers)}
    errors = {number: error for number, file in found.items() if (error := _lookup_error(file, parts))}
    latest = max(found, default=1)
    used = latest + 1 if latest in errors else latest
    for number, error in errors.items():
        _log.error(
            "file system: cannot look up a file, check the file system (fsck); using another file",
            extra={"file": str(found[number]), "instead": str(_numbered(path, used)), "error": str(error)},
        )
    return NumberedFiles(
        path=_numbered(path, used),
        is_next=used != latest,
        unusable=tuple(found[number] for number in errors),
        others=tuple(file for number, file in found.items() if number not in errors and number != used),
    )


def parts_of(path: Path, parts: Sequence[str]) -> list[Path]:
    """The paths of a file's parts."""
    return [path.with_name(path.name + ending) for ending in parts]


def _numbered(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_stem(f"{path.stem}-{number}")


def _lookup_error(path: Path, parts: Sequence[str]) -> OSError | None:
    """The error with which the disk or its file system answers when the parts of a file are looked up."""
    for part in parts_of(path, parts):
        try:
            read_again(part.lstat)
        except OSError as error:
            if error.errno in _UNREADABLE:
                return error
    return None
