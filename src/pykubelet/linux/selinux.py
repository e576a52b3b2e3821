"""SELinux: whether it is enabled, whether the policy knows the labels of containers, and the labels of files.

Labels of files are set through descriptors, and links are never followed: a container that runs may exchange the
entries of a volume while it is relabelled.
"""

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.files.safe_path import close_quietly, proc_path
from pykubelet.base.text import printable
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.treewalk import TreeWalk

_PROCESS: Final = "system_u:system_r:container_t:s0"
_FILES: Final = "system_u:object_r:container_file_t:s0"
_XATTR: Final = "security.selinux"
_ENTRY: Final = re.compile(r'^\s*(\w+)\s*=\s*"([^"]+)"', re.MULTILINE)
_TYPE: Final = re.compile(r"^\s*SELINUXTYPE\s*=\s*(\w+)", re.MULTILINE)
_OF_KERNEL: Final = ("/proc/", "/sys/", "/dev/")
_OF_SYSTEM: Final = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root"),
        *("/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/run", "/var/tmp"),
        *("/etc/passwd", "/etc/shadow", "/etc/pki", "/etc/ssl", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin"),
    )
)
"""Paths that are not relabelled: other programs of the node could not use them any more."""


class ContainerLabels(Struct, frozen=True):
    """The labels that a policy has for containers, or the reason why it has none. All are empty without SELinux."""

    process: str = ""
    files: str = ""
    """Of files that containers may write, without the level of a pod."""
    layers: str = ""
    """Of files that all containers may read."""
    problem: str = ""
    """SELinux is enabled, but containers cannot be confined: the policy does not know one of the labels."""


def container_labels(root: Path = Path("/")) -> ContainerLabels:
    """Read the labels of containers in the policy's ``lxc_contexts``, and have the kernel check them. Blocking.

    The file may name types that the loaded policy lacks, as Debian 12's does: the kernel refuses them.
    """
    if not (root / "sys/fs/selinux/enforce").exists():
        return ContainerLabels()
    current = _text(root / "proc/self/attr/current").strip("\0\n ")
    if current in ("", "kernel"):  # no policy is loaded
        return ContainerLabels()
    kind = _TYPE.search(_text(root / "etc/selinux/config"))
    file = root / "etc/selinux" / (kind[1] if kind else "targeted") / "contexts/lxc_contexts"
    found: dict[str, str] = dict(_ENTRY.findall(_text(file)))
    process, files = found.get("process", _PROCESS), found.get("file", _FILES)
    unknown = [label for label in (process, files) if not _known(label, root)]
    if unknown:
        return ContainerLabels(problem=f"the policy does not know {' and '.join(unknown)}")
    layers = found.get("ro_file", files)
    return ContainerLabels(process=process, files=files, layers=layers if _known(layers, root) else files)


def _known(label: str, root: Path) -> bool:
    """Whether the loaded policy knows a label; true also if this process may not ask."""
    try:
        fd = os.open(root / "sys/fs/selinux/context", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        os.write(fd, label.encode() + b"\0")
    except OSError as error:
        return error.errno != errno.EINVAL
    finally:
        close_quietly(fd)
    return True


def check_labels(*labels: str, root: Path = Path("/")) -> None:
    """Raise Invalid for the first label that the loaded policy does not know; empty ones are none. Blocking.

    A runtime that gets such a label fails with the kernel's "invalid argument" and without the label.
    """
    for label in filter(None, labels):
        if not _known(label, root):
            raise Invalid(f"the SELinux policy does not know the label {label}")


def relabel(path: str, label: str, stop: Callable[[], bool] = lambda: False) -> int:
    """Give a file, or a directory with all that is in it, this label; return how many files had another one.

    File systems without labels, and those that are mounted below the directory, are left alone. Blocking; Transient
    soon after ``stop`` returns true. Raises Invalid for a directory of the system; else the errors of ``base.errors``.
    """
    refused = Invalid(
        f"{path} belongs to the system and cannot get the SELinux label of a pod; mount another directory"
    )
    real = os.path.realpath(path)
    if real in _OF_SYSTEM or real.startswith(_OF_KERNEL):
        raise refused
    try:
        top = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise wrap(error, f"{path} cannot be relabelled") from error
    try:
        # By its identity, too: a link on the way may have been exchanged, and the same directory may be mounted there.
        if _identity(os.fstat(top)) in _system_identities():
            raise refused
        return _relabel_tree(top, label, path, stop)
    finally:
        close_quietly(top)


def relabel_once(directory: str, label: str) -> int:
    """Give a directory with all that is in it this label, unless it has it; return how many files had another one.

    What is created in it later inherits the type from it: it gets the label last, so that an interrupted attempt is
    made again. Errors as of ``relabel``; file systems without labels are left alone. Blocking.
    """
    try:
        if os.getxattr(directory, _XATTR).rstrip(b"\0") == label.encode():
            return 0
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return 0
    return relabel(directory, label)


def _relabel_tree(top: int, label: str, path: str, stop: Callable[[], bool]) -> int:
    device = os.fstat(top).st_dev
    changed = 0

    def visit(directory: int, name: str) -> None:
        nonlocal changed
        try:
            entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except FileNotFoundError:
            return  # removed meanwhile
        except OSError as error:
            raise wrap(error, f"{path}: {printable(name)} cannot be relabelled") from error
        try:
            if os.fstat(entry).st_dev == device:
                changed += _set(entry, label, path)
        finally:
            close_quietly(entry)

    try:
        root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
    except NotADirectoryError:
        return int(_set(top, label, path))
    except OSError as error:
        raise wrap(error, f"{path} cannot be relabelled") from error
    # A pod may nest directories a million deep, or put a million files into one.
    for _ in TreeWalk(root, visit).steps():
        if stop():
            raise Transient(f"{path}: relabelling was stopped after {changed} files; it goes on with the next attempt")
    return changed + _set(top, label, path)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return (found.st_dev, found.st_ino)


def _system_identities() -> set[tuple[int, int]]:
    """Device and inode of each directory of the system."""
    found = set()
    for path in _OF_SYSTEM:
        with suppress(OSError):
            found.add(_identity(os.stat(path)))  # noqa: PTH116 - a text is what there is
    return found


def _set(fd: int, label: str, path: str) -> bool:
    """Set the label of one file below a path; return whether it had another one. Errors of ``linux.errors.wrap``."""
    wanted = label.encode() + b"\0"
    try:
        with suppress(OSError):
            if os.getxattr(proc_path(fd), _XATTR).rstrip(b"\0") == wanted[:-1]:
                return False
        os.setxattr(proc_path(fd), _XATTR, wanted)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOENT):
            return False
        raise wrap(error, f"{path} cannot get the SELinux label {label}") from error
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
