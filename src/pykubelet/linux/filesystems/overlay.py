"""Overlay mounts of many layers, and syncfs(2)."""

import os
from collections.abc import Sequence
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.mounts import mount
from pykubelet.linux.threads import in_own_thread

_CLONE_FS = 0x200
_PAGE = 4096
_INDEX = Path("/sys/module/overlay/parameters/index")
"""Exists if the kernel's overlayfs can index files, which some kernels do by default."""


def mount_overlay(
    directory: str, lowers: Sequence[str], upper: str, work: str, target: str, *, volatile: bool, label: str = ""
) -> None:
    """Mount the ``lowers`` (topmost first, relative to ``directory``) below a writable ``upper`` at ``target``.

    The kernel accepts one page of options, too little for the paths of a hundred layers. So a thread with its own
    working directory mounts them by their short relative names. ``volatile`` avoids syncs of data that does not survive
    a reboot anyway; kernels before 5.10 do not support it and mount without it. ``label`` is the SELinux label of all
    files; empty: none. Blocks; raises the errors of ``mount``.
    """
    options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}"
    if _INDEX.exists():
        # The index ties the upper directory to its layers, which are shared and may move to another disk.
        options += ",index=off"
    if label:
        options += f',context="{label}"'
    if any(mark in part for part in (upper, work) for mark in ",\\:") or any("," in part for part in lowers):
        raise Invalid(f"overlay directories must have no comma, colon or backslash in their paths: {options}")
    if len(options) + len(",volatile") >= _PAGE:
        raise Invalid(f"{len(lowers)} layers with paths this long do not fit into one mount call: {directory}")

    def body() -> None:
        libc.call("unshare", _CLONE_FS)
        os.chdir(directory)
        try:
            mount("overlay", target, "overlay", data=options + (",volatile" if volatile else ""))
        except Invalid:
            if not volatile:
                raise
            mount("overlay", target, "overlay", data=options)

    in_own_thread("overlay", body)


def sync_filesystem(path: Path) -> None:
    """Write all data of the file system of ``path`` to its disk (syncfs(2)). May take seconds."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc.call("syncfs", fd)
    except OSError as error:
        raise wrap(error, f"cannot sync the file system of {path}") from error
    finally:
        os.close(fd)
