"""Extracts an archive that a container has written into a directory, trusting nothing in it.

No member is written outside the directory: names with ``..`` are refused, no link is followed on the way, and a link is
only created if what it names is inside, too. Devices, pipes and sockets are left out, and so are set-user-id bits.
"""

import os
import posixpath
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import IO

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.files.safe_path import directory_in_root, open_regular_at
from pykubelet.base.units import Bytes
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.stream import ByteStream
from pykubelet.criserver.unpack.tarstream import Entry, EntryKind, TarReader

_LIMITS = Limits(max_bytes=Bytes(1 << 62), max_ratio=1, ratio_from=Bytes(1))
"""Files may be as long as a file system allows. A compressed archive must not grow: tar was asked for a plain one."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def extract(archive: IO[bytes], source: str, target: Path, warn: Callable[[str], None]) -> int:
    """Extract the member ``source`` and all below it as ``target``; return how many members were left out.

    ``source`` is one name, or ``.`` for everything. ``target`` is created if its parent exists; a file is put into an
    existing directory under its own name. ``warn`` is called for each member that is left out. Permanent: the archive
    is damaged, has no such member, or the target cannot be written.
    """
    skipped = found = 0
    try:
        with closing(ByteStream(archive, _LIMITS)) as stream:
            reader = TarReader(stream, _LIMITS)
            for member in reader:
                try:
                    inside = _relative(member.name, source)
                    root, names = _place(target, source, inside, is_directory=member.kind is EntryKind.DIRECTORY)
                    _write(reader, member, root, names, source)
                    found += 1
                except BadLayer:
                    raise
                except Invalid as error:
                    warn(f"{member.name!r} left out: {error}")
                    skipped += 1
    except BadLayer as error:
        raise Permanent(f"the container has sent a damaged archive: {error}") from error
    except OSError as error:
        raise Permanent(f"{error.filename or target} cannot be written: {error.strerror}") from error
    if not found and not skipped:
        raise Permanent(f"the container has sent nothing for {source!r}")
    return skipped


def _relative(name: str, source: str) -> tuple[str, ...]:
    """Return the parts of a member's name below the source. Invalid: it is not below it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/"):
        raise Invalid("its name leads out of the target")
    if source == ".":
        return tuple(parts)
    if not parts or parts[0] != source:
        raise Invalid("it was not asked for")
    return tuple(parts[1:])


def _place(target: Path, source: str, inside: tuple[str, ...], *, is_directory: bool) -> tuple[Path, tuple[str, ...]]:
    """Return a trusted directory, and the names below it of the member."""
    if inside:
        return target, inside
    if is_directory:
        return target, ()
    if target.is_dir():
        return target, (source,)
    return target.parent, (target.name,)


def _write(reader: TarReader, member: Entry, root: Path, names: tuple[str, ...], source: str) -> None:
    if member.kind is EntryKind.DIRECTORY:
        root.mkdir(mode=0o755, exist_ok=True)
        with _directory(root, names) as fd:
            os.fchmod(fd, member.mode & 0o777 | 0o700)
        return
    with _directory(root, names[:-1]) as fd:
        name = names[-1]
        match member.kind:
            case EntryKind.SYMLINK:
                _check_link(names, member.link)
                _make_room(fd, name)
                os.symlink(member.link, name, dir_fd=fd)
            case EntryKind.HARDLINK:
                _hard_link(root, _relative(member.link, source), fd, name)
            case EntryKind.FILE:
                _make_room(fd, name)
                _copy(reader, member, fd, name)
            case _:
                raise Invalid("it is neither a file nor a directory nor a link")


def _directory(root: Path, names: tuple[str, ...]) -> AbstractContextManager[int]:
    return directory_in_root(root, *names, make=0o755)


def _check_link(names: tuple[str, ...], link: str) -> None:
    """Raise Invalid unless the link names something inside, wherever other links in the archive lead.

    ``..`` is only accepted at the beginning: behind a name that is itself a link it would lead elsewhere.
    """
    parts = [part for part in link.split("/") if part not in ("", ".")]
    up = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    if link.startswith("/") or ".." in parts[up:] or up > len(names) - 1:
        raise Invalid(f"it is a link to {link!r}, which leads out of the target")


def _hard_link(root: Path, original: tuple[str, ...], directory: int, name: str) -> None:
    if not original:
        raise Invalid("it is a link to a directory")
    with _directory(root, original[:-1]) as fd:
        os.close(open_regular_at(fd, original[-1]))
        _make_room(directory, name)
        os.link(original[-1], name, src_dir_fd=fd, dst_dir_fd=directory, follow_symlinks=False)


def _make_room(directory: int, name: str) -> None:
    """Remove what has the name, so that nothing is written through it; a directory stays. Invalid: it is one."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise Invalid("a directory of this name exists")
        os.unlink(name, dir_fd=directory)


def _copy(reader: TarReader, member: Entry, directory: int, name: str) -> None:
    """Write a file. Holes of a sparse one stay holes, so that a small archive cannot fill the disk or take for ever."""
    pieces, piece = reader.data(), memoryview(b"")
    fd = os.open(name, _NEW, member.mode & 0o777 | 0o600, dir_fd=directory)
    with os.fdopen(fd, "wb", buffering=0) as file:
        for offset, length in member.segments if member.segments is not None else [(0, member.size)]:
            file.seek(offset)
            while length:
                piece = piece or next(pieces)
                written = file.write(piece[:length])
                piece, length = piece[written:], length - written
        file.truncate(member.size)


def base_name(path: str) -> tuple[str, str]:
    """Return directory and last name of a path in a container; ``.`` as the name stands for the directory itself."""
    clean = posixpath.normpath(path)
    directory, name = posixpath.split(clean)
    return (clean, ".") if name in ("", ".", "..") else (directory or ".", name)
