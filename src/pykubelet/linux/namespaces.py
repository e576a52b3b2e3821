"""Namespaces: entering them, and pinning new ones to files so that they outlive every process.

Python 3.11 has no os.unshare and os.setns. A namespace belongs to a thread, and neither the event loop's thread nor a
pool thread may change its own: all functions here use a separate thread that ends with the call.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TypeVar

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.mounts import MountFlag, mount, unmount
from pykubelet.linux.threads import in_own_thread

T = TypeVar("T")

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1


class Namespace(Enum):
    """Namespace types: name under /proc/PID/ns and clone(2) flag. A thread can leave each but the user namespace."""

    NET = ("net", 0x40000000)
    IPC = ("ipc", 0x08000000)
    UTS = ("uts", 0x04000000)
    CGROUP = ("cgroup", 0x02000000)
    USER = ("user", 0x10000000)

    @property
    def file(self) -> str:
        return self.value[0]

    @property
    def flag(self) -> int:
        return self.value[1]


def pin_new(paths: Mapping[Namespace, str]) -> None:
    """Create namespaces and bind each to a new file. On failure nothing remains.

    In a new network namespace the loopback device is brought up. Raises Conflict if a file exists already.
    """
    made: list[str] = []
    try:
        for path in paths.values():
            _make_file(path)
            made.append(path)
        in_own_thread("namespace", lambda: _unshare_and_bind(paths))
    except BaseException:
        for path in made:
            unpin(path)
        raise


def pin_of(pid: int, paths: Mapping[Namespace, str]) -> None:
    """Bind namespaces of a process to new files. On failure nothing remains; raises the errors of ``pin_new``.

    If its network namespace is among them, the loopback device is brought up there.
    """
    made: list[str] = []
    try:
        for kind, path in paths.items():
            _make_file(path)
            made.append(path)
            mount(f"/proc/{pid}/ns/{kind.file}", path, flags=MountFlag.BIND)
        if Namespace.NET in paths:
            call_in(paths[Namespace.NET], Namespace.NET, _loopback_up)
    except BaseException:
        for path in made:
            unpin(path)
        raise


def unpin(path: str) -> None:
    """Release a pinned namespace and remove its file. Idempotent: no error if it is missing."""
    with suppress(NotFound):
        while True:  # a crash between two attempts may have bound it twice
            unmount(path, lazy=True)
    try:
        Path(path).unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error


def call_in(path: str, kind: Namespace, function: Callable[[], T]) -> T:
    """Run a function inside the namespace that is pinned to the file, and return its result.

    Sockets created there stay in that namespace. Blocks as long as the function does.
    """

    def enter() -> T:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise wrap(error, f"cannot open namespace {path}") from error
        try:
            libc.call("setns", fd, kind.flag)
        except OSError as error:
            raise wrap(error, f"cannot enter namespace {path}") from error
        finally:
            os.close(fd)
        return function()

    return in_own_thread("namespace", enter)


def _make_file(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    except FileExistsError as error:
        raise Conflict(f"{path} exists already; a namespace may be pinned there") from error
    except OSError as error:
        raise wrap(error, f"cannot make {path}") from error


def _unshare_and_bind(paths: Mapping[Namespace, str]) -> None:
    names = ", ".join(kind.file for kind in paths)
    try:
        libc.call("unshare", sum(kind.flag for kind in paths))
    except OSError as error:
        raise wrap(error, f"cannot make new namespaces ({names})") from error
    if Namespace.NET in paths:
        _loopback_up()
    for kind, path in paths.items():
        mount(f"/proc/thread-self/ns/{kind.file}", path, flags=MountFlag.BIND)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        request = struct.pack("16sH22x", b"lo", 0)
        reply = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("16xH", reply)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))


def is_namespace(path: str | Path) -> bool:
    """Whether a namespace is pinned to the path; False for a file without its mount and for a missing path."""
    try:
        return Path(path).stat().st_dev == Path("/proc/self/ns/net").stat().st_dev
    except OSError:
        return False
