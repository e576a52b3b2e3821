"""The server's own directories: private, and used by one server at a time."""

import fcntl
import logging
import os
from pathlib import Path

from pykubelet.base import own_files
from pykubelet.base.errors import Conflict, Permanent

_log = logging.getLogger(__name__)


def set_aside(path: Path, directory: Path | None = None) -> Path:
    """Rename what is in the way, so that nothing is lost; its new path, beside it or in ``directory``. Blocking."""
    aside = own_files.set_aside(path, directory)
    _log.error(
        "unexpected file in the place of a file or directory: set aside",
        extra={"path": str(path), "kept_as": str(aside)},
    )
    return aside


def set_aside_obstacle(path: Path, *, directory: bool = False) -> None:
    """Set aside anything but a regular file (with ``directory``: a directory), or a link to one. Blocking."""
    if os.path.lexists(path) and not (path.is_dir() if directory else path.is_file()):
        set_aside(path)


def lock_directory(directory: Path) -> int:
    """A descriptor to hold: two servers on one directory would undo each other's work."""
    set_aside_obstacle(directory / "lock")
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise Conflict(
            f"another criserver uses {directory}; end it or choose other directories with --root and --run"
        ) from error
    return fd


def make_traversable(top: Path, last: Path) -> None:
    """Make what is missing from our directory ``top`` down to ``last`` so that others may walk through and not look.

    The root of a pod's user namespace is such another. What lies in these directories must be private by itself.
    Directories that are there are left as somebody made them. Permanent: others can write to one, and so put theirs
    for ours.
    """
    top.parent.mkdir(parents=True, exist_ok=True)
    for directory in reversed([last, *last.parents][: len(last.relative_to(top).parts) + 1]):
        set_aside_obstacle(directory, directory=True)
        try:
            directory.mkdir(mode=0o711)
        except FileExistsError:
            mode = directory.stat().st_mode & 0o7777
            if mode & 0o022:
                raise Permanent(
                    f"{directory} can be written by others (mode {mode:04o}): chmod go-w {directory}, or choose other "
                    "directories with --root and --run"
                ) from None
        else:
            directory.chmod(0o711)  # whatever the umask


def entries(directory: Path) -> list[Path]:
    """The entries of a directory; none when it is missing, or not a directory. Blocking."""
    return list(directory.iterdir()) if directory.is_dir() else []


def find_untraversable(*lasts: Path) -> Path | None:
    """A directory on the ways to these that others may not walk through; None when there is none."""
    directories = (directory for last in lasts for directory in (last, *last.parents))
    return next((directory for directory in directories if not directory.stat().st_mode & 0o001), None)


def make_directory(directory: Path) -> None:
    """Make it and its parents, for root only."""
    set_aside_obstacle(directory, directory=True)
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
