"""A lock file, which one daemon at a time holds, and by which another one can ask it to end.

Source: ``--lock-file`` and ``--exit-on-lock-contention`` of the Go kubelet.
"""

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pykubelet.base.errors import Invalid

if TYPE_CHECKING:
    from asyncinotify import Inotify

_log = logging.getLogger(__name__)


@contextmanager
def lock_file(path: Path | None, *, give_way: bool) -> Iterator[None]:
    """Wait for the lock, and hold it during the block; None: there is no lock.

    ``give_way``: end this process, as by SIGTERM, once another one opens the file. Raises Invalid if the file cannot be
    used.
    """
    if path is None:
        yield
        return
    fd = -1
    try:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        _lock(fd, path)
        if give_way:
            threading.Thread(target=_end_when_wanted, args=(_watch(path), path), name="lock-file", daemon=True).start()
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise Invalid(f"the lock file {path} cannot be used: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.warning("lock file held by another process: waiting for it", extra={"path": str(path)})
        fcntl.flock(fd, fcntl.LOCK_EX)


def _watch(path: Path) -> "Inotify":
    from asyncinotify import InitFlags, Inotify, Mask  # costs memory only where there is a lock file

    inotify = Inotify(flags=InitFlags.CLOEXEC)  # blocks
    inotify.add_watch(path, Mask.OPEN)
    return inotify


def _end_when_wanted(inotify: "Inotify", path: Path) -> None:
    """A thread, since the event loop may not run yet."""
    inotify.sync_get()
    _log.info("lock file wanted by another process: this one ends", extra={"path": str(path)})
    signal.raise_signal(signal.SIGTERM)
