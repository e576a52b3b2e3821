"""The unix socket of the local API: private to the agent's user, and served by one agent at a time.

Its directory has by default that of the runtime server in it, which the root users of pods with a user namespace must
reach. So others may traverse the directory, but not list it, and what is in it must be private itself.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Conflict, Invalid

_MAX_PATH: Final = 107
"""Maximum length of a path in ``sockaddr_un``."""
_BACKLOG: Final = 128
_DIRECTORY_MODE: Final = 0o711


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Yield a listening socket at the path, removed at the end; a stale socket of a dead agent is replaced.

    Conflict: another agent serves this path. Invalid: the path cannot be used. Exclusiveness comes from a lock on a
    file beside the socket; the kernel releases it when the process ends, even after a crash.
    """
    if len(os.fsencode(path)) > _MAX_PATH:
        raise Invalid(f"the socket path {path} is longer than {_MAX_PATH} bytes; choose a shorter directory")
    _make_directory(path.parent)
    with _locked(path.with_name(f"{path.name}.lock"), path):
        path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            server.bind(str(path))
            path.chmod(0o600)
            server.listen(_BACKLOG)
            yield server
        finally:
            server.close()
            path.unlink(missing_ok=True)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot create the directory {directory} for the local socket: {error.strerror}") from error
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise Invalid(
            f"the directory {directory} of the local socket belongs to user {found.st_uid}, not to the agent's user"
        )
    if found.st_mode & 0o777 != _DIRECTORY_MODE:  # by the umask, or by an earlier version (0700)
        directory.chmod(_DIRECTORY_MODE)


@contextmanager
def _locked(lock: Path, path: Path) -> Iterator[None]:
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Conflict(
                f"another agent (process {holder}) serves {path}; stop it, or start this agent with another --run-dir"
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
