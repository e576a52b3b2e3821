"""The C library's heap: asks it to keep little and to give back what is free.

A long-running agent allocates much at start and while many pods start at once. glibc keeps such pages, and one arena
per thread, for ever unless it is told otherwise. Other C libraries have neither call and need none.
"""

from pykubelet.linux import libc

_M_ARENA_MAX = -8
_ARENAS = 2


def limit_arenas() -> bool:
    """Use two heaps for all threads instead of one each; call it before threads start. False: not glibc."""
    return libc.call_if_there("mallopt", _M_ARENA_MAX, _ARENAS) == 1


def trim() -> bool:
    """Give free heap pages back to the kernel; takes about a millisecond. False: nothing was, or not glibc."""
    return libc.call_if_there("malloc_trim", 0) == 1
