"""The server's own directories: private to root, and locked by one server at a time."""

import fcntl
import logging
import os
import stat
from pathlib import Path

from pykubelet.base.errors import Conflict, Permanent
from pykubelet.base.files import state_files
from pykubelet.base.files.retried_reads import read_again

_log = logging.getLogger(__name__)


def set_aside(path: Path, directory: Path | None = None) -> Path:
    """Rename an unexpected file so that nothing is lost; return the path, beside it or in ``directory``. Blocking."""
    aside = state_files.set_aside(path, directory)
    _log.error(
        "unexpected file in the place of a file or directory: set aside",
        extra={"path": str(path), "kept_as": str(aside)},
    )
    return aside


def set_aside_obstacle(path: Path, *, directory: bool = False) -> None:
    """Set aside what is at ``path`` unless it is a regular file (or a directory), or a link to one. Blocking."""
    if os.path.lexists(path) and not (path.is_dir() if directory else path.is_file()):
        set_aside(path)


def is_regular(path: Path) -> bool:
    """Whether the path is a regular file and no link; False, with a warning, if the file system cannot tell. Blocking.

    ext4 and xfs refuse to look up an inode with a bad checksum, and whatever is done to its name fails. One such file
    must not keep the server from starting.
    """
    return stat.S_ISREG(_mode(path))


def is_directory(path: Path) -> bool:
    """Whether the path is a directory and no link; False, with a warning, if the file system cannot tell. Blocking."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return read_again(path.lstat).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        _log.warning(
            "file system: cannot look at a file; check the file system (fsck)",
            extra={"path": str(path), "error": str(error)},
        )
        return 0


def lock_directory(directory: Path) -> int:
    """Lock the directory; return the descriptor that holds the lock.

    Two servers on one directory would undo each other's work. Conflict: another server holds the lock.
    """
    set_aside_obstacle(directory / "lock")
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise Conflict(
            f"another criserver uses {directory}; stop it or choose other directories with --root and --run"
        ) from error
    return fd


def make_traversable(top: Path, last: Path) -> None:
    """Create missing directories from ``top`` down to ``last`` that others may traverse but not list (mode 0711).

    The root user of a pod's user namespace must traverse them. Files in these directories must be private themselves.
    Missing directories above ``top`` get the same mode. Existing directories keep theirs.
    Permanent: others can write to one of them, and so replace our files.
    """
    for directory in reversed([above for above in top.parents if not above.exists()]):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o711)  # independent of the umask
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
            directory.chmod(0o711)  # independent of the umask


def entries(directory: Path) -> list[Path]:
    """List the entries of a directory; empty when it is missing or not a directory. Blocking."""
    return list(directory.iterdir()) if directory.is_dir() else []


def find_untraversable(*lasts: Path) -> Path | None:
    """Return the first directory in these paths that others may not traverse; None when all can be traversed."""
    directories = (directory for last in lasts for directory in (last, *last.parents))
    return next((directory for directory in directories if not directory.stat().st_mode & 0o001), None)


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, accessible to root only."""
    set_aside_obstacle(directory, directory=True)
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
