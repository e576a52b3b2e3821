"""Volumes that an image declares: writable directories of the host with the image's content. Blocking.

Layout: ``containers/ID/volumes/NUMBER``, beside the root file system, so that they go to the trash with it, whatever
was made of them when the server was killed.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import close_quietly, mkdir_in_root, proc_path
from pykubelet.base.text import encodable, printable
from pykubelet.criserver.storage.copy_tree import copy_tree
from pykubelet.criserver.storage.plan.volumes import is_covered, volumes_to_make
from pykubelet.criserver.types import UserNamespace
from pykubelet.linux.errors import wrap

DIRECTORY: Final = "volumes"


class VolumeRequest(Struct, frozen=True):
    """The volumes that an image declares, and the paths of the container where none is made, nor below them."""

    declared: tuple[str, ...]
    covered: frozenset[str]
    user: UserNamespace | None = None


def make_volumes(place: Path, request: VolumeRequest, stopped: Callable[[], bool]) -> dict[str, str]:
    """Create the volumes of the container in ``place``, whose root file system is mounted there.

    Returns their directories on the host by path in the container; links of the image are resolved in that path, inside
    the root (CVE-2022-23648), so that mounts in the order of their paths hide none of them. A missing directory is
    created, and belongs to the root user of the container.

    Conflict, Invalid: the image has a file there, or the path cannot be mounted. Transient: the disk is full, or
    ``stopped``.
    """
    wanted = volumes_to_make(request.declared, request.covered)
    if not wanted:
        return {}
    try:
        return _make_all(place, wanted, request, stopped)
    except OSError as error:
        raise wrap(error, f"cannot make the volumes of the image in {place}") from error


def _make_all(
    place: Path, wanted: Sequence[str], request: VolumeRequest, stopped: Callable[[], bool]
) -> dict[str, str]:
    root = (place / "rootfs").resolve()
    resolved = {_resolve(root, path, request.user) for path in wanted}
    paths = sorted(path for path in resolved if path != "/" and not is_covered(path, request.covered))
    hosts: dict[str, str] = {}
    directory = place / DIRECTORY
    directory.mkdir(mode=0o711)
    directory.chmod(0o711)  # the root user of a user namespace must get through
    for number, path in enumerate(paths):
        hosts[path] = str(directory / str(number))
        try:
            _make(root, path, Path(hosts[path]), stopped=stopped, without=_below(path, paths))
        except OSError as error:
            raise wrap(error, f"cannot copy volume {printable(path)} of the image to {hosts[path]}") from error
        except Invalid as error:
            raise Invalid(f"cannot copy volume {printable(path)} of the image: {error}") from error
    return hosts


def _resolve(root: Path, path: str, user: UserNamespace | None) -> str:
    """Create the directory in the root file system if it is missing; return its path without links."""
    _check_encoding(path, path)
    try:
        fd = mkdir_in_root(root, path, 0o755)
        try:
            found = Path(proc_path(fd)).readlink()
        finally:
            close_quietly(fd)
        if not found.is_relative_to(root):
            raise Invalid(f"volume {printable(path)} of the image is not inside the root file system {root}")
        inside = found.relative_to(root)
        _check_encoding(path, f"/{inside}")
        _own(found, len(inside.parts), user)
    except OSError as error:
        raise wrap(error, f"cannot make the directory of volume {printable(path)} of the image") from error
    return f"/{inside}" if inside.parts else "/"


def _check_encoding(volume: str, path: str) -> None:
    """Raise Invalid if a path cannot be written into the configuration of the OCI runtime, which is JSON."""
    if not encodable(path):
        raise Invalid(f"volume {printable(volume)} of the image has a path that is not UTF-8: {printable(path)}")


def _own(directory: Path, depth: int, user: UserNamespace | None) -> None:
    """Give a directory, and those above it inside the root, to the root user of the container if they are new."""
    if user is not None:
        for each in (directory, *directory.parents[:depth]):
            if each.lstat().st_uid == 0:
                # Just created: files of the image have mapped ids already.
                os.chown(each, user.ids.uid, user.ids.gid, follow_symlinks=False)


def _below(path: str, paths: Sequence[str]) -> Collection[str]:
    """The volumes below this one, relative to it: their content would be hidden here. ``paths`` are sorted."""
    first, end = bisect_left(paths, f"{path}/"), bisect_left(paths, f"{path}0")  # 0 follows / in the order
    return {each[len(path) + 1 :] for each in paths[first:end]}


def _make(root: Path, path: str, target: Path, *, stopped: Callable[[], bool], without: Collection[str]) -> None:
    target.mkdir(mode=0o700)
    source = new = -1
    try:
        source = os.open(str(root) + path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        new = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        copy_tree(source, new, stopped=stopped, without=without)
    finally:
        for fd in (source, new):
            if fd >= 0:
                os.close(fd)
