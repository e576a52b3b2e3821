"""Overlay mounts of many layers, and syncfs(2)."""

import os
from collections.abc import Sequence
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap
from pykubelet.linux.mounts import mount
from pykubelet.linux.threads import in_own_thread

_CLONE_FS = 0x200
_PAGE = 4096


def mount_overlay(folder: str, lowers: Sequence[str], upper: str, work: str, target: str, *, volatile: bool) -> None:
    """Mount on ``target`` the ``lowers`` (topmost first, relative to ``folder``) with a writable ``upper`` over them.

    The kernel takes one page of options, too little for the paths of a hundred layers: so a thread with a working
    directory of its own mounts them by their short relative names. ``volatile`` spares syncs of data that a reboot
    ends anyhow; kernels before 5.10 do without. Blocks; raises as ``mount``.
    """
    options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}"
    if any(mark in part for part in (upper, work) for mark in ",\\:") or any("," in part for part in lowers):
        raise Invalid(f"overlay folders must have no comma, colon or backslash in their paths: {options}")
    if len(options) + len(",volatile") >= _PAGE:
        raise Invalid(f"{len(lowers)} layers with paths this long do not fit into one mount call: {folder}")

    def body() -> None:
        libc.call("unshare", _CLONE_FS)
        os.chdir(folder)
        try:
            mount("overlay", target, "overlay", data=options + (",volatile" if volatile else ""))
        except Invalid:
            if not volatile:
                raise
            mount("overlay", target, "overlay", data=options)

    in_own_thread("overlay", body)


def sync_filesystem(path: Path) -> None:
    """Write everything of the file system that holds ``path`` to its disk. May take seconds."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc.call("syncfs", fd)
    except OSError as error:
        raise wrap(error, f"cannot sync the file system of {path}") from error
    finally:
        os.close(fd)
