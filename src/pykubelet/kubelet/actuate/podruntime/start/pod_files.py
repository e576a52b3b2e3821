"""Files that the agent shares with a pod's containers: termination messages, logs, /etc/hosts.

Files that a container can write are untrusted input: only regular files are read, never outside the directory, and
never more than a limit. All functions block; callers run them in a thread. They raise OSError, and ``Invalid`` for a
file that is not a regular file.
"""

import os
from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.safe_path import open_regular_in_root

_HOSTS_MODE = 0o644


def read_tail(directory: Path, relative: str, limit: int) -> bytes | None:
    """Return the last ``limit`` bytes of a file below a directory; None if the file does not exist."""
    if not relative:
        raise Invalid(f"cannot read a file below {directory}: the file name is empty")
    try:
        fd = open_regular_in_root(directory, relative, os.O_RDONLY | os.O_CLOEXEC)
    except NotFound:
        return None
    return tail_of(fd, limit)


def tail_of(fd: int, limit: int) -> bytes:
    """Return the last ``limit`` bytes of an open file and close it."""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, limit, max(0, size - limit))
    finally:
        os.close(fd)


def write_hosts(path: Path, content: bytes) -> None:
    """Write the pod's /etc/hosts if its content differs; in place, since running containers have the file mounted."""
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
