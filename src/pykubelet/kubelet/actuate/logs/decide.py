"""What rotation does to the files of one log (pure). Names are those of the reference, which log collectors know:

``3.log`` is written to, ``3.log.20260102-030405`` is the one before it, still plain so that readers can finish,
``3.log.20260102-030201.gz`` are older ones.

The stamps say in which order the files came: each is later than all before it, also when the wall clock was set back.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from pykubelet.kubelet.actuate.logs.types import Tidying

COMPRESSED = ".gz"
TEMPORARY = ".tmp"
_FORM: Final = "%Y%m%d-%H%M%S"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""From then on a stamp is none of ours: there has to be one after each."""
_ROTATED = re.compile(r"(\d{1,18})\.log\.(\d{8}-\d{6})(\.gz)?(\.tmp)?", re.ASCII)
_CURRENT = re.compile(r"(\d{1,18})\.log", re.ASCII)


def is_log(name: str) -> bool:
    """Whether a file is a log or was split off one; other files are left alone."""
    return (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name)) is not None


def current_attempt(names: Iterable[str]) -> int | None:
    """Which start of the container is the last, by its files; only that one may still be written to."""
    found = (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match), default=None)


def rotated_files(names: Iterable[str], log: str) -> list[str]:
    """The files that were split off the log, the oldest first; left-overs of interrupted rotations among them.

    One whose stamp is no time comes before all others: none of ours has such a name.
    """
    found = (name for name in names if name.startswith(f"{log}.") and _ROTATED.fullmatch(name))
    return sorted(found, key=lambda name: (_moment(name), name))


def next_name(names: Iterable[str], log: str, now: datetime) -> str:
    """The name under which the log is put aside now: later than every one that is there, whatever the clock says."""
    newest = max((_moment(name) for name in names if name.startswith(f"{log}.")), default=_NEVER)
    return f"{log}.{max(now, newest + timedelta(seconds=1)):{_FORM}}"


def _moment(name: str) -> datetime:
    """What the stamp in the name of a rotated file says."""
    match = _ROTATED.fullmatch(name)
    if match is not None:
        with suppress(ValueError):
            found = datetime.strptime(match[2], _FORM).replace(tzinfo=UTC)
            return found if found < _LAST else _NEVER
    return _NEVER


def tidying(names: Collection[str], log: str, max_files: int) -> Tidying:
    """Make room for one more rotated file, so that with the new log there are at most ``max_files``."""
    rotated = rotated_files(names, log)
    unused = [name for name in rotated if name.endswith(TEMPORARY) or f"{name}{COMPRESSED}" in rotated]
    kept = [name for name in rotated if name not in unused]
    excess = kept[: max(0, len(kept) - max(0, max_files - 2))]
    plain = tuple(name for name in kept if name not in excess and not name.endswith(COMPRESSED))
    return Tidying(tuple(unused + excess), plain)


def is_lost(names: Collection[str], log: str) -> bool:
    """Whether a rotation was interrupted between the renaming and the reopening: the runtime writes to the old file."""
    return log not in names and any(not name.endswith((COMPRESSED, TEMPORARY)) for name in rotated_files(names, log))
