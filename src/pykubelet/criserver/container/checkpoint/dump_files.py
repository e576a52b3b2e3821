"""The files of a checkpoint that a container is restored from. Others have written them. Blocking."""

import os
import stat
import tarfile
from pathlib import Path
from typing import Any, Final, cast

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import open_regular_in_root, read_regular
from pykubelet.base.units import KIB, MIB, Bytes
from pykubelet.criserver.container.checkpoint import archive
from pykubelet.criserver.container.checkpoint.plan.criu_images import kind_of
from pykubelet.criserver.container.checkpoint.plan.dumped import CheckpointDump, parse, parse_deleted, parse_descriptors
from pykubelet.linux.errors import wrap

MAX_FILES: Final = 100_000
_MAX_CONFIG: Final = 1 * MIB
_MAX_SPEC: Final = 16 * MIB
_MAX_DESCRIPTORS: Final = 64 * KIB
_MAX_DEPTH: Final = 32
_MAX_IMAGE: Final = 4 * MIB
_MAX_IMAGES: Final = 64 * MIB
_MAX_DELETED: Final = 16 * MIB
_DELETED: Final = "deleted.files"
_INVENTORY: Final = "inventory.img"
_DESCRIPTORS: Final = "descriptors.json"


def read_dump(directory: Path, what: str) -> CheckpointDump:
    """Check the files of a checkpoint and read its description.

    Invalid, which names ``what``: a file is missing or too large, or something is neither a file nor a directory.
    """
    _check_files(directory, what)
    images = directory / archive.CHECKPOINT
    if not (images / _INVENTORY).exists():
        raise Invalid(f"{what} is not a checkpoint: it lacks {archive.CHECKPOINT}/{_INVENTORY}")
    if (images / _DESCRIPTORS).exists():
        parse_descriptors(_read(images / _DESCRIPTORS, _MAX_DESCRIPTORS, what), what)
    config = _read(directory / archive.CONFIG, _MAX_CONFIG, what)
    return parse(config, _read(directory / archive.SPEC, _MAX_SPEC, what), what)


class CheckedImages:
    """The images of CRIU that are checked, in a directory of a checkpoint that was checked; read one at a time."""

    def __init__(self, *, directory: Path, what: str) -> None:
        self.names: Final = tuple(path.name for path in directory.iterdir() if kind_of(path.name))
        self._directory = directory
        self._what = what
        self._left = Bytes(_MAX_IMAGES)

    def read(self, name: str) -> bytes:
        """Read an image. Invalid: it is too large, or all that were read are."""
        data = _read(self._directory / name, min(_MAX_IMAGE, self._left), self._what)
        self._left = Bytes(self._left - len(data))
        return data


def open_archive(path: str) -> int:
    """Open an archive on the node. Returns a descriptor. NotFound; Invalid: it is no regular file."""
    return open_regular_in_root("/", path)


def open_diff(directory: Path) -> int | None:
    """Open the changed files of the root file system; None: the checkpoint has none. ``directory`` was checked."""
    try:
        return os.open(directory / archive.DIFF, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def open_deletions(directory: Path, what: str) -> int | None:
    """Return a descriptor of a layer that removes what the checkpoint lists as removed; None: it lists nothing.

    CRI-O lists them in a file of its own, containerd and this server in the layer of the changed files. Invalid.
    """
    if not (directory / _DELETED).exists():
        return None
    fd = os.memfd_create("deleted", os.MFD_CLOEXEC)
    try:
        with (
            os.fdopen(os.dup(fd), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as tar,
        ):
            for path in parse_deleted(_read(directory / _DELETED, _MAX_DELETED, what), what):
                parent, _, name = path.rpartition("/")
                tar.addfile(tarfile.TarInfo(f"{parent}/.wh.{name}".lstrip("/")))
                cast(Any, tar).members.clear()  # it would keep all of them
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def continue_log(directory: Path, log: Path) -> None:
    """Begin a container's log with the last lines of the checkpoint's, unless the container has a log."""
    if not os.path.lexists(log):
        archive.copy_log(directory / archive.LOG, log)


def _read(path: Path, limit: int, what: str) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise Invalid(f"{what}: {path.name} is longer than {limit} bytes")
        return read_regular(path, limit)
    except FileNotFoundError:
        raise Invalid(f"{what} is not a checkpoint: it lacks {path.name}") from None
    except OSError as error:
        raise wrap(error, f"{what}: cannot read {path.name}") from error


def _check_files(directory: Path, what: str) -> None:
    """Refuse links, devices and the like: neither we nor CRIU must open one."""
    count, pending = 0, [(directory, 0)]
    while pending:
        place, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise Invalid(f"{what} has directories deeper than {_MAX_DEPTH} levels")
        with os.scandir(place) as found:
            for entry in found:
                count += 1
                if count > MAX_FILES:
                    raise Invalid(f"{what} has more than {MAX_FILES} files")
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    pending.append((Path(entry.path), depth + 1))
                elif not stat.S_ISREG(mode):
                    name = os.path.relpath(entry.path, directory)
                    raise Invalid(f"{what}: {name[:200]!r} is neither a file nor a directory")
