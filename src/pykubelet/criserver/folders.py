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


def open_way(*ways: tuple[Path, Path]) -> bool:
    """Let the root of a pod's user namespace walk through our folders, from the first of each pair down to the second.

    Nobody can list them, and what lies in them must be private by itself. False when a folder above them, which is not
    ours to change, is closed.
    """
    for top, last in ways:
        last.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (last, *last.parents):
            if not folder.is_relative_to(top):
                break
            folder.chmod(0o711)
    return all(folder.stat().st_mode & 0o001 for top, _ in ways for folder in top.parents)


def make_folder(folder: Path) -> None:
    """Make it and its parents, for root only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
