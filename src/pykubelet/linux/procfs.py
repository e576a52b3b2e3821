"""Information on processes from /proc (proc(5)); no other module reads it.

Names, arguments, environments and cgroup paths are bytes that any process can choose for itself, in no particular
encoding and of any length. So files are read as bytes, up to a limit, and text made of them has surrogates for bytes
that are not UTF-8. The functions return None for a process that does not exist any more or denies access, and for a
path that is too long for the kernel to tell. Any other failure (no descriptors, no memory) is raised, and never taken
for the end of a process.

``arguments`` and ``environment`` read the memory of the process, and a process can make that block for ever (a page of
a file system that hangs): call them only for trusted processes, or in a thread that may hang.
"""

import errno
import os
from collections.abc import Callable, Iterator

from msgspec import Struct

from pykubelet.base.units import Bytes
from pykubelet.linux.errors import wrap
from pykubelet.linux.procparse import (
    Membership,
    NetDevice,
    Stat,
    parse_cgroups,
    parse_limit,
    parse_net_dev,
    parse_stat,
    parse_status,
)

__all__ = ["Identity", "Membership", "Stat"]

ROOT = "/proc"
"""Text, not a Path: each step of a container reads files below it."""
_GONE = frozenset((errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG))
"""The last one: of a path of 4096 bytes or more. Any process can have its program, its files or its cgroup there."""
_MOST = 1 << 20
_CHUNK = 1 << 16


class Identity(Struct, frozen=True):
    """The identity of a file, a program or a namespace."""

    device: int
    inode: int


def pids() -> list[int]:
    """The pids of all processes."""
    try:
        with os.scandir(ROOT) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError as error:
        raise wrap(error, f"cannot list {ROOT}") from error


def stat(pid: int) -> Stat | None:
    """The state of a process, of /proc/PID/stat; None if it does not exist."""
    return parse_stat(pid, _read(f"{pid}/stat") or b"")


def status(pid: int | str) -> dict[str, str] | None:
    """The fields of proc_pid_status(5) by name. ``Name`` is chosen by the process: do not trust it."""
    data = _read(f"{pid}/status")
    return None if data is None else parse_status(data)


def arguments(pid: int) -> tuple[bytes, ...] | None:
    """The command line of a process, which it can change; truncated at 1 MiB."""
    return _words(_read(f"{pid}/cmdline"))


def environment(pid: int) -> tuple[bytes, ...] | None:
    """The environment of a process as ``NAME=value``, which it can change; truncated at 1 MiB."""
    return _words(_read(f"{pid}/environ"))


def cgroups(pid: int | str) -> tuple[Membership, ...] | None:
    """The cgroups of a process, one for each hierarchy; bytes that are not UTF-8 become surrogates.

    None also if the kernel refuses to tell a path, as it is too long.
    """
    data = _read(f"{pid}/cgroup")
    return None if data is None else parse_cgroups(data)


def children(pid: int) -> tuple[int, ...]:
    """The pids of the children of a process; none if it has ended."""
    try:
        tasks = os.listdir(f"{ROOT}/{pid}/task")  # noqa: PTH208 - only the names are needed
    except OSError as error:
        _check(error, f"{pid}/task")
        return ()
    lists = [_read(f"{pid}/task/{task}/children") for task in tasks]
    if tasks and None in lists and stat(pid) is not None:
        # A kernel without these files (CONFIG_PROC_CHILDREN), or a thread that has just ended.
        return tuple(each for each in pids() if (found := stat(each)) is not None and found.parent == pid)
    return tuple(int(word) for each in lists for word in (each or b"").split())


def program(pid: int) -> Identity | None:
    """The executable file of a process."""
    return _identity(f"{pid}/exe")


def program_path(pid: int) -> str | None:
    """The path of the executable in the process's mount namespace; it ends in `` (deleted)`` if it was replaced.

    Empty if it is longer than the kernel tells: any process can make one.
    """
    return _link(f"{pid}/exe")


def namespace(pid: int | str, kind: str) -> Identity | None:
    """One of the namespaces of a process, by the name in /proc/PID/ns."""
    return _identity(f"{pid}/ns/{kind}")


def threads(pid: int) -> int | None:
    """The number of threads of a process."""
    return _count(f"{pid}/task")


def descriptors(pid: int) -> Iterator[tuple[int, str]]:
    """The open descriptors of a process and their targets (``socket:[…]``, a path; empty if it is too long)."""
    try:
        with os.scandir(f"{ROOT}/{pid}/fd") as entries:
            for entry in entries:
                target = _link(f"{pid}/fd/{entry.name}")
                if target is not None:
                    yield int(entry.name), target
    except OSError as error:
        _check(error, f"{pid}/fd")


def limit(pid: int, name: str) -> str | None:
    """A soft resource limit of a process by name (``Max open files``), as text: a number or ``unlimited``."""
    return parse_limit(_read(f"{pid}/limits") or b"", name)


def network_devices(pid: int | str) -> tuple[NetDevice, ...]:
    """The devices of the process's network namespace, the loopback device included; none if it has ended."""
    return parse_net_dev(_read(f"{pid}/net/dev") or b"")


def mount_id(fd: int) -> int | None:
    """The mount id of a descriptor of this process; None where the kernel does not report it."""
    for line in (_read(f"self/fdinfo/{fd}") or b"").split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"mnt_id":
            return int(value)
    return None


def own_memory() -> Callable[[], Bytes]:
    """A function that returns the resident memory of this process, also after a chroot. It holds a descriptor."""
    fd = os.open(f"{ROOT}/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    page = os.sysconf("SC_PAGESIZE")
    return lambda: Bytes(int(os.pread(fd, 128, 0).split()[1]) * page)


def machine(name: str) -> str:
    """A file of /proc about the whole machine (``meminfo``, ``pressure/cpu``); empty where the kernel has none."""
    return _text(_read(name) or b"")


def _read(name: str) -> bytes | None:
    """Read up to ``_MOST`` bytes of a file; None: its process has ended or denies access."""
    try:
        fd = os.open(f"{ROOT}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        _check(error, name)
        return None
    chunks: list[bytes] = []
    size = 0
    try:
        while size < _MOST and (chunk := os.read(fd, min(_CHUNK, _MOST - size))):
            chunks.append(chunk)
            size += len(chunk)
    except OSError as error:
        _check(error, name)
        return None
    finally:
        os.close(fd)
    return b"".join(chunks)


def _identity(name: str) -> Identity | None:
    try:
        found = os.stat(f"{ROOT}/{name}")  # noqa: PTH116 - called for every process
    except OSError as error:
        _check(error, name)
        return None
    return Identity(found.st_dev, found.st_ino)


def _link(name: str) -> str | None:
    try:
        return os.readlink(f"{ROOT}/{name}")  # noqa: PTH115 - only the text is needed
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # of what it links to
            return ""
        _check(error, name)
        return None


def _count(name: str) -> int | None:
    try:
        with os.scandir(f"{ROOT}/{name}") as entries:
            return sum(1 for _ in entries)
    except OSError as error:
        _check(error, name)
        return None


def _check(error: OSError, name: str) -> None:
    """Raise the error unless it means that the process has ended or denies access."""
    if error.errno not in _GONE:
        raise wrap(error, f"cannot read {ROOT}/{name}") from error


def _words(data: bytes | None) -> tuple[bytes, ...] | None:
    return None if data is None else tuple(data.removesuffix(b"\0").split(b"\0"))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
