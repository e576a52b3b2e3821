"""Atomic replacement of files: a reader sees the old or the new content, never a part of it."""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
_MAX_BEGINNING = 200
"""Bytes of a file's name that its temporary file has."""


def write_atomic(
    path: str | os.PathLike[str],
    data: bytes,
    mode: int = 0o600,
    *,
    durable: bool = False,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace `path` by a file with this content and these permission bits (the umask does not apply).

    It belongs to the caller, or to ``owner`` (uid, gid). With `durable`, content and name are on the disk when the call
    returns (fsync of file and directory); without, a crash of the machine (not of the process) may lose the new
    version. Blocks; raises OSError.
    """
    target = Path(path)
    beginning = os.fsdecode(os.fsencode(target.name)[:_MAX_BEGINNING])  # the whole name must fit into the longest
    temporary = target.parent / f".{beginning}.{secrets.token_hex(6)}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(target.parent)


def remove_temporary_files(directory: str | os.PathLike[str]) -> None:
    """Remove the temporary files of killed writers from a directory. No writer may be active there. Blocks."""
    for path in Path(directory).glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            with suppress(OSError):  # a directory, or immutable: nothing needs its name
                path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Write the names of a directory to the disk. Blocks."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
