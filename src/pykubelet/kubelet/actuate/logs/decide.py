"""What rotation does to the files of one log (pure). Names are those of the reference, which log collectors know:

``3.log`` is written to, ``3.log.20260102-030405`` is the one before it, still plain so that readers can finish,
``3.log.20260102-030201.gz`` are older ones.
"""

import re
from collections.abc import Collection, Iterable

from pykubelet.kubelet.actuate.logs.types import Tidying

COMPRESSED = ".gz"
TEMPORARY = ".tmp"
_ROTATED = re.compile(r"(\d{1,18})\.log\.\d{8}-\d{6}(\.gz)?(\.tmp)?", re.ASCII)
_CURRENT = re.compile(r"(\d{1,18})\.log", re.ASCII)


def is_log(name: str) -> bool:
    """Whether a file is a log or was split off one; other files are left alone."""
    return (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name)) is not None


def current_attempt(names: Iterable[str]) -> int | None:
    """Which start of the container is the last, by its files; only that one may still be written to."""
    found = (_CURRENT.fullmatch(name) or _ROTATED.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match), default=None)


def rotated_files(names: Iterable[str], log: str) -> list[str]:
    """The files that were split off the log, the oldest first; left-overs of interrupted rotations among them."""
    return sorted(name for name in names if name.startswith(f"{log}.") and _ROTATED.fullmatch(name))


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
