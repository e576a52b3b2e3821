"""Release of memory of this process that it no longer needs.

A long-running agent allocates much memory at start and while many pods start at once, and runs much library code that
it never needs again. glibc keeps free pages, and the kernel keeps code mapped that has run once. Other C libraries
have none of these calls and do not need them.
"""

from collections.abc import Iterator
from pathlib import Path

from pykubelet.linux import libc

_M_ARENA_MAX = -8
_ARENAS = 2
_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/maps")


def limit_arenas() -> bool:
    """Use two heaps for all threads instead of one per thread. False: not glibc.

    Call it before the first thread starts: heaps that exist stay, and each keeps free space of its own.
    """
    return libc.call_if_present("mallopt", _M_ARENA_MAX, _ARENAS) == 1


def trim() -> bool:
    """Return free heap pages to the kernel; takes about a millisecond. False: there were none, or not glibc."""
    return libc.call_if_present("malloc_trim", 0) == 1


def drop_code_pages() -> int:
    """Unmap pages of program code, so that only code that runs from now on counts; the size of the mappings in bytes.

    Nothing is lost or read from disk again: code is never written to, and its pages stay in the kernel's cache. Code
    that is still needed is mapped again by a page fault of a microsecond.
    """
    total = 0
    for start, size in code_mappings(_MAPS.read_text(errors="replace")):
        libc.call("madvise", start, size, _MADV_DONTNEED)
        total += size
    return total


def code_mappings(maps: str) -> Iterator[tuple[int, int]]:
    """(address, size) of the executable, read-only file mappings in a table as of proc_pid_maps(5)."""
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1] == "r-xp" and fields[5].startswith("/"):
            start, end = (int(each, 16) for each in fields[0].split("-"))
            yield start, end - start
