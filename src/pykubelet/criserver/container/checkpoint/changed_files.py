"""Writes what a container has changed in its root file system as a layer. Blocking.

The container has made these files to its taste: trees of any depth, holes of any size, links in the place of files. So
each is opened without following links, and the memory for their names is limited.
"""

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, cast

from pykubelet.base.errors import Invalid, Transient, Unsupported
from pykubelet.base.units import MIB
from pykubelet.criserver.container.checkpoint.archive import check_room
from pykubelet.linux.errors import wrap

MAX_FILES: Final = 1_000_000
MAX_DEPTH: Final = 512
"""As of a layer that can be unpacked."""
MAX_LINKED: Final = 100_000
"""Files with several names, which are remembered."""
MAX_SEGMENTS: Final = 10_000
MAX_PATH: Final = 4094
"""Bytes of a path that a worker can unpack below its root; deep directories with long names have longer ones."""
MAX_MEMORY: Final = 128 * MIB
"""For names that wait to be read, and for those of files with several names."""
_OF_NAME: Final = 64
_BLOCK: Final = 512
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_KEPT_XATTRS: Final = ("user.", "security.capability", "system.posix_acl_")
_PARTIAL: Final = ("trusted.overlay.redirect", "trusted.overlay.metacopy")
"""Marks of files whose content is elsewhere; they exist only where an administrator has enabled them."""
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TYPES: Final = {
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}


def write_diff(upper: Path, target: Path) -> None:
    """Write what is in a writable overlay directory as a layer: removed files are whiteouts (OCI image layer format).

    Invalid: there are too many files, or they are too deep; Transient: the disk has no room; Unsupported; those of
    ``base.errors`` for the disk.
    """
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
            _Diff(tar=tar, target=target).write(upper)
    except OSError as error:
        raise wrap(error, f"cannot write the changed files of a container to {target}") from error


class _Diff:
    def __init__(self, *, tar: tarfile.TarFile, target: Path) -> None:
        self._tar = tar
        self._target = target
        self._count = 0
        self._memory = 0
        self._first: dict[tuple[int, int], str] = {}
        """The first names of files with several ones."""

    def write(self, upper: Path) -> None:
        """Write all entries, parents first."""
        with _opened(os.open(upper, _OPEN | os.O_DIRECTORY)) as top:
            levels = [(top, "", self._names(top))]
            try:
                while levels:
                    directory, prefix, names = levels[-1]
                    if not names:
                        levels.pop()
                        if directory != top:
                            os.close(directory)
                        continue
                    name = names.pop()
                    self._memory -= len(name) + _OF_NAME
                    below = self._add(directory, name, prefix + name)
                    if below is not None:
                        levels.append((below, f"{prefix}{name}/", []))
                        if len(levels) > MAX_DEPTH:
                            raise Invalid(f"the container has changed directories deeper than {MAX_DEPTH} levels")
                        levels[-1] = (below, f"{prefix}{name}/", self._names(below))
            finally:
                for directory, *_ in levels:
                    if directory != top:
                        os.close(directory)

    def _names(self, directory: int) -> list[str]:
        names = []
        with os.scandir(directory) as found:
            for entry in found:
                self._count += 1
                if self._count > MAX_FILES:
                    raise Invalid(f"the container has changed more than {MAX_FILES} files")
                self._remember(entry.name)
                names.append(entry.name)
        return sorted(names, reverse=True)

    def _remember(self, name: str) -> None:
        self._memory += len(name) + _OF_NAME
        if self._memory > MAX_MEMORY:
            raise Invalid(f"the names of the files that the container has changed take more than {MAX_MEMORY} bytes")

    def _add(self, directory: int, name: str, path: str) -> int | None:
        """Add an entry; returns the descriptor of a directory."""
        if len(os.fsencode(path)) > MAX_PATH:
            raise Invalid(f"the container has changed a file whose path is longer than {MAX_PATH} bytes")
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
        kind = stat.S_IFMT(facts.st_mode)
        if kind == stat.S_IFDIR:
            return self._add_directory(os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=directory), path)
        if kind == stat.S_IFREG:
            with _opened(os.open(name, _OPEN, dir_fd=directory)) as fd:
                self._add_file(fd, path)
        elif kind == stat.S_IFCHR and facts.st_rdev == 0:
            parent, _, base = path.rpartition("/")
            self._put(_empty(f"{parent}/{_WHITEOUT}{base}".lstrip("/")))
        elif kind in _TYPES:  # a layer has no sockets
            info = _info(facts, path)
            info.type = _TYPES[kind]
            if kind == stat.S_IFLNK:
                info.linkname = os.readlink(name, dir_fd=directory)
            else:
                info.devmajor, info.devminor = os.major(facts.st_rdev), os.minor(facts.st_rdev)
            self._put(info)
        return None

    def _add_directory(self, fd: int, path: str) -> int:
        try:
            info, attributes = _info(os.fstat(fd), path), _attributes(fd, path)
            info.type = tarfile.DIRTYPE
            info.pax_headers = _records(attributes)
            self._put(info)
            if attributes.get("trusted.overlay.opaque") == b"y":
                self._put(_empty(f"{path}/{_OPAQUE}"))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _add_file(self, fd: int, path: str) -> None:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise Transient(f"the changed file {path!r} was replaced while it was read")
        info = _info(facts, path)
        identity = facts.st_dev, facts.st_ino
        if facts.st_nlink > 1 and identity in self._first:
            info.type, info.linkname = tarfile.LNKTYPE, self._first[identity]
            self._put(info)
            return
        if facts.st_nlink > 1:
            if len(self._first) == MAX_LINKED:
                raise Invalid(f"the container has changed more than {MAX_LINKED} files with hard links")
            self._remember(path)
            self._first[identity] = path
        info.pax_headers = _records(_attributes(fd, path))
        segments = _segments(fd, facts)
        with os.fdopen(os.dup(fd), "rb") as file:
            if segments is None:
                info.size = facts.st_size
                self._put(info, file)
            else:
                self._put_sparse(info, facts.st_size, file, segments)

    def _put_sparse(self, info: tarfile.TarInfo, size: int, file: IO[bytes], segments: list[tuple[int, int]]) -> None:
        """Add a file with holes (GNU tar manual, "Storing Sparse Files", PAX format 1.0)."""
        lines = f"{len(segments)}\n" + "".join(f"{offset}\n{length}\n" for offset, length in segments)
        table = lines.encode()
        table += bytes(-len(table) % _BLOCK)
        parent, _, base = info.name.rpartition("/")
        info.pax_headers = {
            **info.pax_headers,
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": info.name,
            "GNU.sparse.realsize": str(size),
        }
        info.name = f"{parent}/GNUSparseFile.0/{base}".lstrip("/")
        info.size = len(table) + sum(length for _, length in segments)
        self._put(info, cast(IO[bytes], _Segments(table=table, file=file, segments=segments)))

    def _put(self, info: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        check_room(self._target.parent, info.size)
        self._tar.addfile(info, content)
        cast(Any, self._tar).members.clear()  # it would keep all of them


class _Segments(io.RawIOBase):
    """The content of a sparse file in an archive: the table, then the segments."""

    def __init__(self, *, table: bytes, file: IO[bytes], segments: list[tuple[int, int]]) -> None:
        self._table = table
        self._file = file
        self._pending = segments[::-1]
        self._left = 0

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes, and fewer only at the end."""
        data, self._table = self._table[:size], self._table[size:]
        while len(data) < size:
            if not self._left:
                if not self._pending:
                    break
                offset, self._left = self._pending.pop()
                self._file.seek(offset)
            piece = self._file.read(min(self._left, size - len(data)))
            if not piece:
                break
            self._left -= len(piece)
            data += piece
        return data


@contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _info(facts: os.stat_result, path: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.mode, info.uid, info.gid, info.mtime = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_mtime
    return info


def _empty(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode = 0o600
    return info


def _attributes(fd: int, path: str) -> dict[str, bytes]:
    found = {key: os.getxattr(fd, key) for key in os.listxattr(fd)}
    if any(key in found for key in _PARTIAL):
        raise Unsupported(
            f"the changed file {path!r} is one of overlayfs with redirect_dir or metacopy; disable these options of "
            "the kernel's module overlay"
        )
    return found


def _records(attributes: dict[str, bytes]) -> dict[str, str]:
    return {
        f"SCHILY.xattr.{key}": value.decode(errors="surrogateescape")
        for key, value in attributes.items()
        if key.startswith(_KEPT_XATTRS)
    }


def _segments(fd: int, facts: os.stat_result) -> list[tuple[int, int]] | None:
    """The parts of a file that have data; None: it has no holes. Invalid: too many parts."""
    if facts.st_blocks * _BLOCK >= facts.st_size:
        return None
    found: list[tuple[int, int]] = []
    offset = 0
    with suppress(OSError):  # ENXIO: only a hole remains
        while offset < facts.st_size:
            begin = os.lseek(fd, offset, os.SEEK_DATA)
            offset = min(os.lseek(fd, begin, os.SEEK_HOLE), facts.st_size)
            if len(found) == MAX_SEGMENTS:
                raise Invalid(f"a changed file of the container has more than {MAX_SEGMENTS} holes")
            found.append((begin, offset - begin))
    return found
