"""The files of a checkpoint, and the archive of them. Blocking."""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.base.units import MIB
from pykubelet.linux.errors import wrap

CHECKPOINT: Final = "checkpoint"
"""The directory of CRIU's images. The names are those of checkpointctl, which reads such archives."""
CONFIG: Final = "config.dump"
SPEC: Final = "spec.dump"
STATUS: Final = "status.dump"
DIFF: Final = "rootfs-diff.tar"
LOG: Final = "container.log"
MAX_LOG: Final = 16 * MIB
RESERVED: Final = 0.05
"""Share of the disk that checkpoints leave free."""
_CHUNK: Final = 1 * MIB
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_log(log: Path, target: Path) -> None:
    """Copy the last lines of a log, at most ``MAX_LOG`` bytes of it, to a new file.

    No error if there is no log. Errors: those of ``base.errors`` for the disk, also if the target exists.
    """
    try:
        with suppress(FileNotFoundError), open(os.open(log, _READ), "rb") as source:
            facts = os.fstat(source.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return
            with open(os.open(target, _NEW, 0o640), "wb") as file:
                if facts.st_size > MAX_LOG:
                    source.seek(facts.st_size - MAX_LOG)
                    source.readline(MAX_LOG)
                left = MAX_LOG
                while left and (piece := source.read(min(left, _CHUNK))):
                    left -= len(piece)
                    file.write(piece)
    except OSError as error:
        raise wrap(error, f"cannot copy the log {log} to {target}") from error


def write_archive(directory: Path, location: Path) -> None:
    """Write all files of a directory to an archive that only root may read; it appears when it is complete.

    Transient: the disk has no room. Errors: those of ``base.errors`` for the disk.
    """
    partial = location.with_name(f"{location.name}.partial")
    try:
        check_room(location.parent, sum(path.lstat().st_size for path in _below(directory)))
        # A file that another user has put there would stay that user's.
        partial.unlink(missing_ok=True)
        with open(os.open(partial, _NEW, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in _below(directory):
                    tar.add(path, str(path.relative_to(directory)), recursive=False)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(location)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise wrap(error, f"cannot write the checkpoint archive {location}") from error


def check_room(directory: Path, size: int) -> None:
    """Check that a disk has room for so many bytes, and some for others. Transient: it has not."""
    disk = os.statvfs(directory)
    if size > (disk.f_bavail - RESERVED * disk.f_blocks) * disk.f_frsize:
        raise Transient(
            f"the disk of {directory} has no room for {size} bytes of a checkpoint; {RESERVED:.0%} are kept free"
        )


def _below(directory: Path) -> Iterator[Path]:
    """Yield all entries below a directory, parents first; links are not followed."""
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
