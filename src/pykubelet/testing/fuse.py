"""A FUSE file system that works, hangs or fails on command, for tests of volumes and disks that hang or fail.

    with FuseMount(tmp_path / "volume") as volume:
        volume.behave(Behaviour.HANG)

It is a separate process (``python -m pykubelet.testing.fuse MOUNTPOINT ORDER``): killing it is like killing a real
FUSE daemon, and the test itself never hangs in it. It speaks the kernel's protocol (fuse(4), linux/fuse.h) itself and
has one directory with one file, ``data``.
"""

import contextlib
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from enum import IntEnum, StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from pykubelet.base.errors import PykubeletError
from pykubelet.linux.filesystems.mountinfo import mounts
from pykubelet.linux.filesystems.mounts import detach, mount
from pykubelet.testing.agent import environment, wait_for

_SECONDS = 10.0
_IN = struct.Struct("<IIQQIIII")
"""Header of a request: len, opcode, unique, nodeid, uid, gid, pid, padding."""
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_BUFFER = 1 << 18
_ROOT, _FILE = 1, 2
_CONTENT = b"data\n"


class _Op(IntEnum):
    """Opcodes of the protocol's requests."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    STATFS = 17
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    INTERRUPT = 36
    BATCH_FORGET = 42


_UNANSWERED = (_Op.FORGET, _Op.INTERRUPT, _Op.BATCH_FORGET)


class Behaviour(StrEnum):
    """The file system's handling of requests."""

    WORK = "work"
    HANG = "hang"
    """Read requests and never reply."""
    HANG_LISTS = "hang-lists"
    """Reply to all requests but those for the names in a directory."""
    FAIL = "fail"
    """Reply with EIO."""


class FuseMount:
    """A mount and its process. Use as a context manager, or ``start`` and ``stop``."""

    def __init__(self, point: Path, order: Path | None = None) -> None:
        self.point = point
        self._order = order or point.with_name(f"{point.name}.behaviour")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def behave(self, how: Behaviour) -> None:
        """Set the behavior from the next request on."""
        temporary = self._order.with_name(f".{self._order.name}")
        temporary.write_text(how)
        temporary.rename(self._order)

    def start(self, how: Behaviour = Behaviour.WORK) -> None:
        """Mount over the directory; returns when the mount exists."""
        self.point.mkdir(parents=True, exist_ok=True)
        self.behave(how)
        before = self._mounted()
        command = [sys.executable, "-m", "pykubelet.testing.fuse", str(self.point), str(self._order)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment())
        wait_for(lambda: self._mounted() > before, _SECONDS, lambda: f"nothing was mounted on {self.point}")

    def kill(self) -> None:
        """Kill only the process: the mount stays, and every access fails with ENOTCONN."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def unmount(self) -> None:
        """Unmount, even while the mount is in use."""
        with contextlib.suppress(PykubeletError):
            detach(str(self.point))

    def stop(self) -> None:
        """End the process, which aborts hanging requests, and unmount."""
        self.kill()
        self.unmount()
        self._order.unlink(missing_ok=True)

    def _mounted(self) -> int:
        return sum(each.path == str(self.point) for each in mounts())


class _Server:
    def __init__(self, device: int, order: Path) -> None:
        self._device = device
        self._order = order

    def serve(self) -> None:
        """Serve requests until the file system is unmounted."""
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, opcode, unique, node, *_ = _IN.unpack_from(request)
            self._take(opcode, unique, node, request[_IN.size :])

    def _take(self, opcode: int, unique: int, node: int, body: bytes) -> None:
        how = Behaviour.WORK if opcode == _Op.INIT else Behaviour(self._order.read_text())
        if opcode in _UNANSWERED or how is Behaviour.HANG:
            return
        if opcode == _Op.READDIR and how is Behaviour.HANG_LISTS:
            return
        if how is Behaviour.FAIL:
            self._answer(unique, -errno.EIO)
            return
        answer = _work(opcode, node, body)
        self._answer(unique, -answer if isinstance(answer, int) else 0, b"" if isinstance(answer, int) else answer)

    def _answer(self, unique: int, status: int, data: bytes = b"") -> None:
        with contextlib.suppress(OSError):  # the caller has given up
            os.write(self._device, _OUT.pack(_OUT.size + len(data), status, unique) + data)


def _work(opcode: int, node: int, body: bytes) -> bytes | int:
    """Handle a request: returns the body of the reply, or an errno."""
    match opcode:
        case _Op.INIT:
            # 7.31; no readahead, no flags, 16 requests in the background.
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 16, 12, 4096, 1, 1, 0, 0)
        case _Op.LOOKUP:
            found = body.rstrip(b"\0") == b"data"
            return struct.pack("<QQQQII", _FILE, 0, 0, 0, 0, 0) + _attributes(_FILE) if found else errno.ENOENT
        case _Op.GETATTR:
            return struct.pack("<QII", 0, 0, 0) + _attributes(node)
        case _Op.OPEN | _Op.OPENDIR:
            return struct.pack("<QII", 0, 1, 0)  # FOPEN_DIRECT_IO
        case _Op.READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return _CONTENT[offset : offset + size]
        case _Op.READDIR:
            _, offset, _ = struct.unpack_from("<QQI", body)
            return b"" if offset else struct.pack("<QQII8s", _FILE, 1, 4, stat.S_IFREG >> 12, b"data")
        case _Op.STATFS:
            return struct.pack("<QQQQQIIII24x", 1024, 512, 512, 16, 8, 4096, 255, 4096, 0)
        case _Op.RELEASE | _Op.FLUSH | _Op.RELEASEDIR:
            return b""
        case _:
            return errno.ENOSYS


def _attributes(node: int) -> bytes:
    now = int(time.time())
    mode, size = (stat.S_IFDIR | 0o755, 4096) if node == _ROOT else (stat.S_IFREG | 0o644, len(_CONTENT))
    return _ATTR.pack(node, size, 8, now, now, now, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def main() -> None:
    """Mount the file system and serve it."""
    point, order = sys.argv[1:]
    device = os.open("/dev/fuse", os.O_RDWR)
    mount("pykubelet-test", point, "fuse", data=f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other")
    _Server(device, Path(order)).serve()


if __name__ == "__main__":
    main()
