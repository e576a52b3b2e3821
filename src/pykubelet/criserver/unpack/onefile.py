"""Writes the blob of an artifact as one file below the current root directory. Runs in the chrooted worker only."""

import hashlib
import os
from pathlib import Path
from typing import IO

from pykubelet.base.units import MIB
from pykubelet.criserver.unpack.account import Account
from pykubelet.criserver.unpack.extract import UnpackedLayer
from pykubelet.criserver.unpack.limits import BadLayer

_CHUNK = 1 * MIB
_MAX_DEPTH = 512
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_file(source: IO[bytes], path: str, algorithm: str, account: Account) -> tuple[UnpackedLayer, str]:
    """Copy ``source`` to the file ``path`` below ``/``, with its directories; returns also the content's digest.

    The file belongs to root and is readable to all. Its directories are not reported as implicit ones: they have the
    same owner and mode in each layer of an artifact. Raises BadLayer for a path that cannot be a file's, or OSError.
    """
    parts = path.split("/")
    if len(parts) > _MAX_DEPTH or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise BadLayer(f"{path[:80]!r} is not the name of a file")
    directory = Path("/")
    for part in parts[:-1]:
        directory /= part
        account.inode(part, blocks=1)
        directory.mkdir(mode=0o755)
    account.inode(parts[-1])
    account.data(os.fstat(source.fileno()).st_size)
    found = hashlib.new(algorithm)
    fd = os.open(directory / parts[-1], _NEW_FILE, 0o644)
    with open(fd, "wb", buffering=0) as target:
        while piece := source.read(_CHUNK):
            found.update(piece)
            account.writing(len(piece))
            view = memoryview(piece)
            while view:
                view = view[target.write(view) :]
    return UnpackedLayer(bytes=account.bytes, inodes=account.inodes), f"{algorithm}:{found.hexdigest()}"
