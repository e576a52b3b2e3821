"""The place of a container's log, where a pod with a volume on the directory of logs may put what it likes.

conmon opens a log by its path, and follows links. To rotate it, conmon opens the next log as ``<log>.tmp``, empties it
and renames it to ``<log>``; if that fails, conmon ends, and the container has no monitor any more. Both places are
cleared just before, and the next log is created here. The pod can still replace a file between that and conmon's open.
"""

import os
import stat
from pathlib import Path

from msgspec import Struct

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.linux.errors import wrap

_NEXT = ".tmp"
_LONGEST = 255
"""Bytes of a name in Linux' file systems."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NextLog(Struct, frozen=True):
    """The file that conmon opens as the next log."""

    log: Path
    device: int
    inode: int

    def is_in_place(self) -> bool:
        """Whether the log is a file that conmon has opened since this one was made. Blocks briefly.

        Conflict: another one, which was put in the place of this one, has become the log, or conmon's was removed.
        """
        if self._is(_look(self.log)):
            return True
        if os.path.lexists(_next(self.log)):
            return False
        found = _look(self.log)  # both are looked at again: conmon renames between two looks
        if found is None or not _is_own(found):
            raise Conflict(f"{self.log} was replaced while its container's monitor reopened it")
        return True

    def drop(self) -> None:
        """Remove it: conmon will not open it. Transient: it cannot be removed. Blocks briefly."""
        if self._is(_look(_next(self.log))):
            _remove(_next(self.log))

    def _is(self, found: os.stat_result | None) -> bool:
        # A link can get the inode number of a file that was removed.
        return found is not None and _is_own(found) and (found.st_dev, found.st_ino) == (self.device, self.inode)


def clear_log_place(log: Path) -> None:
    """Remove what has the name of a log and is no file of its own; conmon, which opens it next, makes another one.

    conmon would write through a link to any file of the node, and a FIFO would block it. Permanent, Transient: it
    cannot be removed. Blocks briefly.
    """
    found = _look(log)
    if found is not None and not _is_own(found):
        _remove(log)


def make_next_log(log: Path) -> NextLog:
    """Clear the places of a log and of the next one, and create the next one, before conmon is told to reopen it.

    If this fails, conmon must not be told, since it would end. NotFound: there is no directory; Invalid: the name is
    too long for conmon; Permanent, Transient, Conflict: it cannot be created. Blocks briefly.
    """
    if len(os.fsencode(log.name)) > _LONGEST - len(_NEXT):
        raise Invalid(f"log {log} cannot be rotated: its name may have at most {_LONGEST - len(_NEXT)} bytes")
    clear_log_place(log)
    following = _next(log)
    clear_log_place(following)
    try:
        fd = os.open(following, _CREATE, 0o600)
    except OSError as error:
        raise wrap(error, f"log {log} cannot be rotated: cannot create {following}") from error
    try:
        made = os.fstat(fd)
    finally:
        os.close(fd)
    if not _is_own(made):
        raise Conflict(f"log {log} cannot be rotated: {following} was replaced while it was created")
    return NextLog(log, made.st_dev, made.st_ino)


def _next(log: Path) -> Path:
    return log.with_name(log.name + _NEXT)


def _is_own(found: os.stat_result) -> bool:
    """Whether it is a regular file with one name."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise wrap(error, f"cannot look at {path}, to write a log there") from error


def _remove(path: Path) -> None:
    try:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise wrap(error, f"cannot remove {path}, which is no regular file, to write a log there") from error
