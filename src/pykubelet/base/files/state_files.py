"""The agent's own small state files on disk: read within bounds, or set aside if they are damaged.

A path that is not a regular file, is too large or cannot be decoded is renamed beside its old name, so that no data is
lost and the path is free, and is listed for ``pykubelet doctor``. A file that cannot be read or renamed now (failing
disk, immutable file) is read again twice; then it stays, is listed too, and is tried again at each use.
"""

import errno
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular

_T = TypeVar("_T")
_DAMAGED: Final = frozenset({errno.EINVAL, errno.EFBIG, errno.ELOOP})
_UNREADABLE: Final = (PykubeletError, ValueError, LookupError, RecursionError, OverflowError, msgspec.MsgspecError)
_MOST_LISTED: Final = 256
_MOST_ASIDE: Final = 1000
ASIDE: Final = ".aside-"
"""The part of the name of a file that was set aside, before its number."""
_listed: Final[OrderedDict[str, "DamagedFile"]] = OrderedDict()
_lock: Final = threading.Lock()


class DamagedFile(Struct, frozen=True):
    """A state file that could not be read."""

    path: str
    error: str
    kept_as: str
    """Its new path; empty if it was not renamed."""


def damaged_files() -> list[DamagedFile]:
    """The damaged files found since the process started: at most the newest 256, oldest first."""
    with _lock:
        return list(_listed.values())


def set_aside(path: Path, directory: Path | None = None) -> Path:
    """Rename a file beside its old path or into ``directory``, and return the new path. Blocks; raises OSError."""
    for number in range(1, _MOST_ASIDE):
        aside = (directory or path.parent) / f"{path.name}{ASIDE}{number}"
        if not os.path.lexists(aside):
            path.rename(aside)
            return aside
    raise FileExistsError(errno.EEXIST, f"{_MOST_ASIDE - 1} others have been set aside", os.fspath(path))


def clear_path(path: Path) -> None:
    """Set aside a directory at the path, which a file or link could not replace. Blocks; raises OSError."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        _list(path, "a directory in the place of a file", str(set_aside(path)))


def read_state_file(path: Path, limit: int, parse: Callable[[bytes], _T]) -> _T:
    """Read a state file of at most ``limit`` bytes and return the result of ``parse``. Blocks for a bounded time.

    Raises FileNotFoundError if the file is missing, Invalid if it was damaged and is set aside now, and OSError if it
    cannot be read now.
    """
    try:
        return parse(read_again(partial(read_regular, path, limit)))
    except OSError as error:
        if error.errno not in _DAMAGED:
            if not isinstance(error, FileNotFoundError):
                _list(path, str(error), "")
            raise
        cause: Exception = error
    except _UNREADABLE as error:
        cause = error
    reason = f"{cause}" or type(cause).__name__
    try:
        kept_as = str(set_aside(path))
    except OSError as error:
        _list(path, f"{reason}; it cannot be renamed: {error.strerror}", "")
        raise Invalid(f"{path} is damaged and cannot be renamed: {reason}; {error.strerror}") from cause
    _list(path, reason, kept_as)
    raise Invalid(f"{path} is damaged, it is kept as {kept_as}: {reason}") from cause


def write_state_file(path: Path, data: bytes, limit: int, *, durable: bool = False) -> None:
    """Replace a state file, private to its owner, for ``read_state_file`` with the same limit. Blocks.

    Raises Invalid if the data are longer, since the next process would set such a file aside; OSError. In both cases
    the former file is still there.
    """
    if len(data) > limit:
        raise Invalid(f"{path} would have {len(data)} bytes, of which at most {limit} can be read again")
    clear_path(path)
    write_atomic(path, data, durable=durable)


def set_aside_damaged(path: Path, error: str) -> Path:
    """Set aside a file that its reader found to be damaged, list it, and return its new path. Blocks; raises OSError,
    after listing it, if it cannot be renamed."""
    try:
        kept_as = set_aside(path)
    except OSError as failure:
        _list(path, f"{error}; it cannot be renamed: {failure.strerror}", "")
        raise
    _list(path, error, str(kept_as))
    return kept_as


def _list(path: Path, error: str, kept_as: str) -> None:
    with _lock:
        _listed.pop(str(path), None)
        _listed[str(path)] = DamagedFile(str(path), error[:1000], kept_as)
        while len(_listed) > _MOST_LISTED:
            _listed.popitem(last=False)
