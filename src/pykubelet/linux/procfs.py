"""The one place that reads what /proc says of processes (proc(5)).

Names, arguments, environments and cgroup paths are bytes that any process may choose for itself; they are no text in
any encoding, and may be as long as their owner likes. So files are read as bytes, up to a limit, and texts made of
them keep what is no UTF-8 as surrogates. None is the answer about a process that is not there any more, or that does
not show this to us. Any other trouble of ours (no descriptors, no memory) is an error and never the end of a process.

``arguments`` and ``environment`` read the process's own memory, which a process can make wait for ever (a page of a
file system that hangs): ask them only of processes that are trusted, or in a thread that may hang.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pykubelet.linux.errors import wrap
from pykubelet.linux.procparse import Membership, Stat, parse_cgroups, parse_limit, parse_stat, parse_status

__all__ = ["Identity", "Membership", "Stat"]

ROOT = Path("/proc")
_GONE = frozenset((errno.ENOENT, errno.ESRCH, errno.ENOTDIR, errno.EACCES, errno.EPERM))
_MOST = 1 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a file, a program or a namespace from every other."""

    device: int
    inode: int


def pids() -> list[int]:
    """All processes that there are now."""
    try:
        with os.scandir(ROOT) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError as error:
        raise wrap(error, f"cannot list {ROOT}") from error


def stat(pid: int) -> Stat | None:
    """The process of that number; None when there is none."""
    return parse_stat(pid, _read(f"{pid}/stat") or b"")


def status(pid: int | str) -> dict[str, str] | None:
    """The fields of proc_pid_status(5) by name. Never trust ``Name``."""
    data = _read(f"{pid}/status")
    return None if data is None else parse_status(data)


def arguments(pid: int) -> tuple[bytes, ...] | None:
    """Its command line, as it says itself; cut at a MiB."""
    return _words(_read(f"{pid}/cmdline"))


def environment(pid: int) -> tuple[bytes, ...] | None:
    """``NAME=value`` as at its start, or as it says since; cut at a MiB."""
    return _words(_read(f"{pid}/environ"))


def cgroups(pid: int | str) -> tuple[Membership, ...] | None:
    """Its cgroups, one for each hierarchy; bytes that are no UTF-8 are surrogates."""
    data = _read(f"{pid}/cgroup")
    return None if data is None else parse_cgroups(data)


def children(pid: int) -> tuple[int, ...]:
    """The processes that it is the parent of; none when it has ended."""
    try:
        tasks = os.listdir(ROOT / f"{pid}/task")  # noqa: PTH208 - names are all that is wanted
    except OSError as error:
        _check(error, f"{pid}/task")
        return ()
    lists = [_read(f"{pid}/task/{task}/children") for task in tasks]
    if tasks and None in lists and stat(pid) is not None:
        # A kernel without these files (CONFIG_PROC_CHILDREN), or a thread that has just ended.
        return tuple(each for each in pids() if (found := stat(each)) is not None and found.parent == pid)
    return tuple(int(word) for each in lists for word in (each or b"").split())


def program(pid: int) -> Identity | None:
    """The file that it runs."""
    return _identity(f"{pid}/exe")


def program_path(pid: int) -> str | None:
    """The path of the file that it runs, in its own mount namespace; `` (deleted)`` follows when it was replaced."""
    return _link(f"{pid}/exe")


def namespace(pid: int | str, kind: str) -> Identity | None:
    """One of its namespaces, by the name in /proc/PID/ns."""
    return _identity(f"{pid}/ns/{kind}")


def owner(pid: int) -> int | None:
    """The effective user id that it runs as (0 also for a process that may not be looked into)."""
    try:
        return (ROOT / str(pid)).stat().st_uid
    except OSError as error:
        _check(error, f"{pid}")
        return None


def threads(pid: int) -> int | None:
    """How many threads it has."""
    return _count(f"{pid}/task")


def descriptors(pid: int) -> Iterator[tuple[int, str]]:
    """Its open descriptors and what each points at (``socket:[…]``, a path)."""
    try:
        with os.scandir(ROOT / f"{pid}/fd") as entries:
            for entry in entries:
                target = _link(f"{pid}/fd/{entry.name}")
                if target is not None:
                    yield int(entry.name), target
    except OSError as error:
        _check(error, f"{pid}/fd")


def limit(pid: int, name: str) -> str | None:
    """The soft limit of that name (``Max open files``) as written: a number or ``unlimited``."""
    return parse_limit(_read(f"{pid}/limits") or b"", name)


def network_devices(pid: int | str) -> str:
    """The table of proc_pid_net(5) in its network namespace; empty when it has ended."""
    return _text(_read(f"{pid}/net/dev") or b"")


def mount_id(fd: int) -> int | None:
    """The mount that a descriptor of ours is on; None where the kernel does not say."""
    for line in (_read(f"self/fdinfo/{fd}") or b"").split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"mnt_id":
            return int(value)
    return None


def machine(name: str) -> str:
    """A file about the whole machine (``meminfo``, ``pressure/cpu``); empty where the kernel has none."""
    return _text(_read(name) or b"")


def _read(name: str) -> bytes | None:
    """Up to ``_MOST`` bytes of a file; None: its process has ended or hides it."""
    try:
        fd = os.open(ROOT / name, os.O_RDONLY | os.O_CLOEXEC)
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
        found = (ROOT / name).stat()
    except OSError as error:
        _check(error, name)
        return None
    return Identity(found.st_dev, found.st_ino)


def _link(name: str) -> str | None:
    try:
        return os.readlink(ROOT / name)  # noqa: PTH115 - text is all that is wanted
    except OSError as error:
        _check(error, name)
        return None


def _count(name: str) -> int | None:
    try:
        with os.scandir(ROOT / name) as entries:
            return sum(1 for _ in entries)
    except OSError as error:
        _check(error, name)
        return None


def _check(error: OSError, name: str) -> None:
    """Raise the error, unless all that it says is that the process has ended or hides this."""
    if error.errno not in _GONE:
        raise wrap(error, f"cannot read {ROOT / name}") from error


def _words(data: bytes | None) -> tuple[bytes, ...] | None:
    return None if data is None else tuple(data.removesuffix(b"\0").split(b"\0"))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
