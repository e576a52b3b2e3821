"""The files of a checkpoint: what the container has changed in its root file system, and the archive. Blocking."""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

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
_CHUNK: Final = 1 * MIB
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_KEPT_XATTRS: Final = ("user.", "security.capability")


def write_diff(upper: Path, target: Path) -> None:
    """Write what is in a writable overlay directory as a layer: removed files are whiteouts (OCI image layer format).

    The directory must not change meanwhile. Errors: those of ``base.errors`` for the disk.
    """
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in _below(upper):
                _add(tar, path, str(path.relative_to(upper)))
    except OSError as error:
        raise wrap(error, f"cannot write the changed files of a container to {target}") from error


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
    """Write all files of a directory to an archive that only root may read; it appears when it is complete."""
    partial = location.with_name(f"{location.name}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
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


def _below(directory: Path) -> Iterator[Path]:
    """Yield all entries below a directory, parents first; links are not followed."""
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    facts = path.lstat()
    if stat.S_ISSOCK(facts.st_mode):
        return  # a layer has none
    if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:
        parent, _, base = name.rpartition("/")
        tar.addfile(_empty(f"{parent}/{_WHITEOUT}{base}".lstrip("/")))
        return
    info = tar.gettarinfo(path, name)
    attributes = {} if path.is_symlink() else {key: os.getxattr(path, key) for key in os.listxattr(path)}
    info.pax_headers = {
        f"SCHILY.xattr.{key}": value.decode(errors="surrogateescape")
        for key, value in attributes.items()
        if key.startswith(_KEPT_XATTRS)
    }
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)
    if attributes.get("trusted.overlay.opaque") == b"y":
        tar.addfile(_empty(f"{name}/{_OPAQUE}"))


def _empty(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = 0o600
    return info
