"""Reads an image's /etc/passwd and /etc/group, which may be hostile, in constant memory. Blocking."""

import os
from collections.abc import Iterator
from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.safe_path import open_regular_in_root
from pykubelet.criserver.spec.users import resolve_user
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

MAX_FILE = 10 << 20
"""Maximum size of a file in bytes."""
MAX_LINE = 64 << 10
"""Maximum size of a line in bytes: a group of some thousand members."""


def find_user(context: pb.LinuxContainerSecurityContext, image_user: str, rootfs: Path) -> ContainerUser:
    """Look up the user of the container in the image. Invalid: the user is unknown, or the files exceed the limits."""
    return resolve_user(
        context, image_user, lambda: _blocks(rootfs, "etc/passwd"), lambda: _blocks(rootfs, "etc/group")
    )


def _blocks(rootfs: Path, path: str) -> Iterator[bytes]:
    """Read the file in blocks of complete lines, ``MAX_LINE`` bytes at a time; nothing when the file does not exist."""
    try:
        fd = open_regular_in_root(rootfs, path)
    except (NotFound, Invalid):
        return
    with os.fdopen(fd, "rb", buffering=0) as file:
        if os.fstat(fd).st_size > MAX_FILE:
            raise Invalid(f"the image's /{path} is larger than {MAX_FILE >> 20} MiB")
        rest, read = b"", 0
        while piece := file.read(MAX_LINE):
            read += len(piece)
            if read > MAX_FILE:
                raise Invalid(f"the image's /{path} is larger than {MAX_FILE >> 20} MiB")
            whole, newline, tail = piece.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = tail
            else:
                rest += tail
                if len(rest) > MAX_LINE:
                    raise Invalid(f"the image's /{path} has a line longer than {MAX_LINE >> 10} KiB")
        if rest:
            yield rest
