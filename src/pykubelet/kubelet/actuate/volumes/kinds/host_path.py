"""hostPath: a file or directory of the node itself.

The path is checked, or created, once before the first container starts. Its file system may not respond (NFS), so it
is never accessed on the event loop. Nothing of it is removed with the pod.
"""

import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.base.files.deep_path import make_directories, make_file, stat_path
from pykubelet.base.files.path_length import check_length
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, VolumeAttributes, Work

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644

_Test = Callable[[int], bool]
_TESTS: Final[dict[str, tuple[_Test, str]]] = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}
_CREATE: Final = "OrCreate"


class HostPath:
    """Plugin for hostPath volumes. Without a type nothing is checked; the runtime creates a missing directory."""

    name = "kubernetes.io/host-path"
    attributes = VolumeAttributes(selinux_relabel=False)

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.host_path
        assert source is not None
        path, kind = source.path, source.type
        if ".." in path.split("/"):
            raise Invalid(f"invalid HostPath `{path}`: must not contain '..'")
        if not path:
            raise Invalid("invalid HostPath ``: must not be empty")
        check_length(path, "invalid HostPath: hostPath.path")
        return Work(lambda: check(path, kind) if kind else None, once=True)


def check(path: str, kind: str) -> None:
    """Check that the path is of the type ``kind``, and create it for the OrCreate types. Blocks.

    Raises Conflict with the message of the Go kubelet, or OSError.
    """
    basic = kind.removesuffix(_CREATE)
    if basic not in _TESTS or (basic != kind and basic not in ("Directory", "File")):
        raise Invalid(f"{kind} is an invalid volume type")
    mode = _mode_of(path)
    if mode is None and basic != kind:
        if basic == "Directory":
            with suppress(FileExistsError):
                make_directories(path, _DIRECTORY_MODE)
        else:
            make_file(path, _FILE_MODE)
        mode = _mode_of(path)
    test, noun = _TESTS[basic]
    if mode is None or not test(mode):
        raise Conflict(f"hostPath type check failed: {path} is not a {noun}")


def _mode_of(path: str) -> int | None:
    found = stat_path(path)
    return found.st_mode if found is not None else None
