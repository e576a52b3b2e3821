"""Processes, threads, open files and sockets of a container, counted from /proc. Blocking."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from msgspec import Struct

from pykubelet.linux import procfs

_MOST_DESCRIPTORS: Final = 1 << 16
"""Of one container; a process may have a million, which take up to 18 s to look at."""


class ProcessUse(Struct, frozen=True):
    """The totals of all processes of a container; ``open_files_limit`` is the soft limit of the first process."""

    processes: int = 0
    threads: int = 0
    descriptors: int = 0
    sockets: int = 0
    open_files_limit: int | None = None


def measure(first: int, pids: Iterable[int]) -> ProcessUse:
    """Count threads, open files and sockets of these processes; a process that ends meanwhile does not count.

    Of the open files, at most ``_MOST_DESCRIPTORS`` count.
    """
    processes = threads = descriptors = sockets = 0
    for pid in pids:
        own = procfs.threads(pid)
        if own is None:
            continue
        threads += own
        processes += 1
        for _, target in islice(procfs.descriptors(pid), _MOST_DESCRIPTORS - descriptors):
            descriptors += 1
            sockets += target.startswith("socket:")
    limit = procfs.limit(first, "Max open files")
    return ProcessUse(processes, threads, descriptors, sockets, int(limit) if limit and limit.isdecimal() else None)
