"""The process's own memory: gives back to the kernel what it does not need.

A long-running agent allocates much at start and while many pods start at once, and runs through a lot of code of its
libraries that it never needs again. glibc keeps free pages, and the kernel keeps code mapped that was run once. Other
C libraries have none of these calls and need none.
"""

from collections.abc import Iterator
from pathlib import Path

from pykubelet.linux import libc

_M_ARENA_MAX = -8
_ARENAS = 2
_MADV_DONTNEED = 4
_MAPS = Path("/proc/self/maps")


def limit_arenas() -> bool:
    """Use two heaps for all threads instead of one each; call it before threads start. False: not glibc."""
    return libc.call_if_present("mallopt", _M_ARENA_MAX, _ARENAS) == 1


def trim() -> bool:
    """Give free heap pages back to the kernel; takes about a millisecond. False: nothing was, or not glibc."""
    return libc.call_if_present("malloc_trim", 0) == 1


def drop_code_pages() -> int:
    """Unmap pages of program code, so that only what is run from now on counts; the bytes of the mappings.

    Nothing is lost or read again: code is never written to, and its pages stay in the kernel's cache. What is still
    needed comes back with a page fault of a microsecond.
    """
    total = 0
    for start, size in code_mappings(_MAPS.read_text(errors="replace")):
        libc.call("madvise", start, size, _MADV_DONTNEED)
        total += size
    return total


def code_mappings(maps: str) -> Iterator[tuple[int, int]]:
    """(address, size) of the mappings of files that may be run but not written, of a table as in proc_pid_maps(5)."""
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1] == "r-xp" and fields[5].startswith("/"):
            start, end = (int(each, 16) for each in fields[0].split("-"))
            yield start, end - start
