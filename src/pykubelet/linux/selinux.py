"""SELinux: whether it is enabled, the policy's labels of containers, and the labels of files.

Labels of files are set through descriptors, and links are never followed: a container that runs may exchange the
entries of a volume while it is relabelled.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.files.safe_path import close_quietly, proc_path
from pykubelet.linux.errors import wrap

_PROCESS: Final = "system_u:system_r:container_t:s0"
_FILES: Final = "system_u:object_r:container_file_t:s0"
_XATTR: Final = "security.selinux"
_ENTRY: Final = re.compile(r'^\s*(\w+)\s*=\s*"([^"]+)"', re.MULTILINE)
_TYPE: Final = re.compile(r"^\s*SELINUXTYPE\s*=\s*(\w+)", re.MULTILINE)
_DEEPEST: Final = 256
"""Each level of directories takes a descriptor."""
_OF_SYSTEM: Final = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root"),
        *("/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/run", "/var/tmp"),
        *("/etc/passwd", "/etc/shadow", "/etc/pki", "/etc/ssl", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin"),
    )
)
"""What other programs of the node could not use any more."""


def container_labels(root: Path = Path("/")) -> tuple[str, str] | None:
    """The labels that the policy has for processes and files of containers; None: SELinux is disabled. Blocking."""
    if not (root / "sys/fs/selinux/enforce").exists():
        return None
    current = _text(root / "proc/self/attr/current").strip("\0\n ")
    if current in ("", "kernel"):  # no policy is loaded
        return None
    kind = _TYPE.search(_text(root / "etc/selinux/config"))
    file = root / "etc/selinux" / (kind[1] if kind else "targeted") / "contexts/lxc_contexts"
    found = dict(_ENTRY.findall(_text(file)))
    return found.get("process", _PROCESS), found.get("file", _FILES)


def relabel(path: str, label: str) -> int:
    """Give a file, or a directory with all that is in it, this label; return how many files had another one.

    File systems without labels are left alone. Blocking. Raises Invalid for a directory of the system, and for one that
    is nested too deeply; else the errors of ``base.errors``.
    """
    real = os.path.realpath(path)
    if real in _OF_SYSTEM:
        raise Invalid(
            f"{path} belongs to the system and cannot get the SELinux label of a pod; mount another directory"
        )
    try:
        top = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise wrap(error, f"{path} cannot be relabelled") from error
    try:
        return sum(_set(fd, label) for fd in _tree(top, 0, path))
    except OSError as error:
        raise wrap(error, f"{path} cannot get the SELinux label {label}") from error
    finally:
        close_quietly(top)


def _tree(fd: int, depth: int, path: str) -> Iterator[int]:
    """Yield descriptors of all files in a directory, and at last its own; each is open until the next one."""
    if depth > _DEEPEST:
        raise Invalid(f"{path} has directories that are nested more than {_DEEPEST} levels deep; it is not relabelled")
    for name in _names(fd):
        try:
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed meanwhile
        try:
            yield from _tree(entry, depth + 1, path)
        finally:
            close_quietly(entry)
    yield fd


def _names(fd: int) -> list[str]:
    """The entries of a directory; none if it is something else."""
    with suppress(NotADirectoryError, FileNotFoundError):
        directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry in entries]
        finally:
            close_quietly(directory)
    return []


def _set(fd: int, label: str) -> bool:
    """Set the label of one file; return whether it had another one."""
    wanted = label.encode() + b"\0"
    try:
        with suppress(OSError):
            if os.getxattr(proc_path(fd), _XATTR).rstrip(b"\0") == wanted[:-1]:
                return False
        os.setxattr(proc_path(fd), _XATTR, wanted)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOENT):
            return False
        raise
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
