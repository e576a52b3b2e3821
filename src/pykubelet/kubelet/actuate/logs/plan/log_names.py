"""Names and order of the files of one log. Pure. Names are those of the Go kubelet, which log collectors know:

``3.log`` is the current log, ``3.log.20260102-030405`` the previous one, not compressed yet so that readers can finish,
``3.log.20260102-030201.gz`` are older ones.

The timestamps give the order: each is later than all before it, even if the wall clock was set back.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from pykubelet.kubelet.actuate.logs.log_types import RotatedFiles

COMPRESSED = ".gz"
TEMPORARY = ".tmp"
_FORM: Final = "%Y%m%d-%H%M%S"
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Later timestamps are invalid, since a later one has to exist for each."""
_ROTATED = re.compile(r"(\d{1,18})\.log\.(\d{8}-\d{6})(\.gz)?(\.tmp)?", re.ASCII)
_CURRENT = re.compile(r"(\d{1,18})\.log", re.ASCII)


def is_log(name: str) -> bool:
    """Whether a file is a log or a rotated log; other files are ignored."""
    return (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name)) is not None


def current_attempt(names: Iterable[str]) -> int | None:
    """Return the container's last attempt, by its files; only its log may still be written to."""
    found = (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match), default=None)


def rotated_files(names: Iterable[str], log: str) -> list[str]:
    """Return the rotated files of the log, the oldest first, with leftovers of interrupted rotations.

    A file with an invalid timestamp, which is not of the agent, comes first.
    """
    found = (name for name in names if name.startswith(f"{log}.") and _ROTATED.fullmatch(name))
    return sorted(found, key=lambda name: (_moment(name), name))


def next_name(names: Iterable[str], log: str, now: datetime) -> str:
    """Return the name for rotating the log now: later than all existing ones, whatever the clock says."""
    newest = max((_moment(name) for name in names if name.startswith(f"{log}.")), default=_NEVER)
    return f"{log}.{max(now, newest + timedelta(seconds=1)):{_FORM}}"


def _moment(name: str) -> datetime:
    """Timestamp in the name of a rotated file."""
    match = _ROTATED.fullmatch(name)
    if match is not None:
        with suppress(ValueError):
            found = datetime.strptime(match[2], _FORM).replace(tzinfo=UTC)
            return found if found < _LAST else _NEVER
    return _NEVER


def tidying(names: Collection[str], log: str, max_files: int) -> RotatedFiles:
    """Plan the removal and compression of rotated files, so that with the new log there are at most ``max_files``."""
    rotated = rotated_files(names, log)
    unused = [name for name in rotated if name.endswith(TEMPORARY) or f"{name}{COMPRESSED}" in rotated]
    kept = [name for name in rotated if name not in unused]
    excess = kept[: max(0, len(kept) - max(0, max_files - 2))]
    plain = tuple(name for name in kept if name not in excess and not name.endswith(COMPRESSED))
    return RotatedFiles(tuple(unused + excess), plain)


def is_lost(names: Collection[str], log: str) -> bool:
    """Whether a rotation was interrupted after the renaming, so that the runtime writes to the renamed file."""
    return log not in names and any(not name.endswith((COMPRESSED, TEMPORARY)) for name in rotated_files(names, log))
