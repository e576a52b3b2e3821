"""Creates the directory of a volume's content, on disk or in memory.

Creation is atomic, so a crash leaves nothing that looks finished: a directory on disk gets its permissions under
another name, a file system in memory gets them with the mount itself.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid, Permanent, PykubeletError
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.volumes.ownership import give_to_group, group_mode
from pykubelet.linux import system
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import is_mount_point

_PARENT_MODE: Final = 0o750
_DISK_MODE: Final = 0o777
_MEMORY_MODE: Final = 0o1777
"""Default mode of a tmpfs, as under the Go kubelet."""
_NO_SWAP: Final = {"noswap": ""}
_NO_SWAP_SINCE: Final = (6, 4)
SWAPPED_VOLUMES: Final = (
    "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped "
    "to disk and should no longer be considered secure."
)
"""Text of the event if `memory_volumes_may_swap`; upstream's."""


def make_on_disk(path: Path, group: int | None, policy: str = "") -> None:
    """Create an empty directory, writable for every user, owned by the fsGroup; an existing one is not changed."""
    if path.exists():
        return
    path.parent.mkdir(mode=_PARENT_MODE, parents=True, exist_ok=True)
    unfinished = path.parent / f".{path.name}.new"
    unfinished.mkdir(mode=0o700, exist_ok=True)
    unfinished.chmod(_DISK_MODE)
    if group is not None:
        give_to_group(unfinished, group, policy)
    unfinished.rename(path)


def make_in_memory(path: Path, group: int | None, size: Bytes | None) -> None:
    """Mount a tmpfs of at most ``size`` bytes, without swap if possible; an existing mount is not changed."""
    path.mkdir(mode=_PARENT_MODE, parents=True, exist_ok=True)
    if is_mount_point(path):
        return
    mode, options = _options(group)
    # noswap needs Linux 6.4 (or a kernel that has it earlier) and is not permitted in a user namespace.
    with suppress(Invalid, Permanent):
        mounts.tmpfs(str(path), size=size, mode=mode, options=options | _NO_SWAP)
        return
    mounts.tmpfs(str(path), size=size, mode=mode, options=options)


def memory_volumes_may_swap(root: Path) -> bool:
    """Whether the machine has swap, and the kernel cannot keep volumes in memory out of it. Blocks briefly.

    Older kernels are asked by a mount below ``root``, which ends at once; one that cannot be made counts as a no.
    """
    if not system.meminfo().swap_total or system.kernel_release() >= _NO_SWAP_SINCE:
        return False
    path = root / ".noswap"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_mount_point(path):
            mounts.tmpfs(str(path), options=_NO_SWAP)
        mounts.unmount(str(path), lazy=True)
        path.rmdir()
    except (PykubeletError, OSError):
        with suppress(OSError):
            path.rmdir()
        return True
    return False


def make_of_huge_pages(path: Path, group: int | None, page_size: Bytes) -> None:
    """Mount a hugetlbfs; an existing mount is not changed."""
    path.mkdir(mode=_PARENT_MODE, parents=True, exist_ok=True)
    if is_mount_point(path):
        return
    mode, options = _options(group)
    parts = options | {"mode": f"{mode:o}", "pagesize": str(page_size)}
    mounts.mount("nodev", str(path), "hugetlbfs", data=",".join(f"{k}={v}" for k, v in parts.items()))


def _options(group: int | None) -> tuple[int, dict[str, str]]:
    if group is None:
        return _MEMORY_MODE, {}
    return group_mode(0o040000 | _MEMORY_MODE), {"gid": str(group)}
