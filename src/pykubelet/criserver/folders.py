"""The server's own folders: private, and used by one server at a time."""

import fcntl
import os
from pathlib import Path

from pykubelet.base.errors import Conflict


def lock_folder(folder: Path) -> int:
    """A descriptor to hold: two servers on one folder would undo each other's work."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise Conflict(
            f"another criserver uses {folder}; end it or choose other folders with --root and --run"
        ) from error
    return fd


def make_folder(folder: Path) -> None:
    """Make it and its parents, for root only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
