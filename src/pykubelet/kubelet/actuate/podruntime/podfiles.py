"""Files that the agent shares with a pod's containers: last words, logs, /etc/hosts.

What a container can write is read as hostile: regular files only, never out of the directory, never more than a cap.
Everything here blocks; callers run it in a thread. Errors are OSError, and ``Invalid`` for what is no plain file.
"""

import os
from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.safe_path import open_regular_in_root

_HOSTS_MODE = 0o644


def read_tail(directory: Path, relative: str, limit: int) -> bytes | None:
    """The last ``limit`` bytes of a file below a directory; None if there is none."""
    if not relative:
        raise Invalid(f"a file of {directory} has no name")
    try:
        fd = open_regular_in_root(directory, relative, os.O_RDONLY | os.O_CLOEXEC)
    except NotFound:
        return None
    return tail_of(fd, limit)


def tail_of(fd: int, limit: int) -> bytes:
    """The last ``limit`` bytes of an open file, which is closed."""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, limit, max(0, size - limit))
    finally:
        os.close(fd)


def write_hosts(path: Path, content: bytes) -> None:
    """Make the pod's /etc/hosts say this; it is written in place, since running containers have it mounted."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, _HOSTS_MODE)
    try:
        if os.pread(fd, len(content) + 1, 0) == content:
            return
        os.fchmod(fd, _HOSTS_MODE)
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)
