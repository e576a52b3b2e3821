"""Run the command line with a shifted wall clock: ``python -m pykubelet.testing.shifted run …``.

The file named by ``PYKUBELET_SHIFT`` contains the number of seconds by which the wall clock is wrong and, optionally,
the kernel's boot id. Both may change while the program runs: the daemon sees the clock jump or, at its next start, a
reboot, while the clock of the machine does not change.
"""

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

VARIABLE = "PYKUBELET_SHIFT"
_LAYOUT = struct.Struct("d36s")


def module() -> str:
    """The module that runs the command line of a daemon: this module if the environment names a shift."""
    return "pykubelet.testing.shifted" if VARIABLE in os.environ else "pykubelet.cli"


@contextmanager
def jumping(path: Path, by: float, every: float) -> Iterator[None]:
    """Make the wall clock of daemons that are started within the block jump, ``every`` so many seconds.

    The clock is ``by`` seconds fast, then as many slow, then correct. The file at ``path`` is created here.
    """
    write_shift(path)
    ended = threading.Event()

    def jump() -> None:
        turn = 0
        while not ended.wait(every):
            turn += 1
            write_shift(path, (0.0, by, -by)[turn % 3])

    thread = threading.Thread(target=jump, name="clock-jumps", daemon=True)
    os.environ[VARIABLE] = str(path)
    thread.start()
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        ended.set()
        thread.join()


def write_shift(path: Path, seconds: float = 0.0, boot_id: str = "") -> None:
    """Set the clock and the boot id (36 characters; empty: the kernel's own). The file keeps its inode."""
    data = _LAYOUT.pack(seconds, boot_id.encode())
    if not path.exists():
        path.write_bytes(data)
        return
    with path.open("r+b") as file:
        file.write(data)


def read_shift(path: Path) -> float:
    """The seconds by which the clock is wrong now."""
    return float(_LAYOUT.unpack(path.read_bytes())[0])


def shift(path: Path) -> None:
    """Apply the clock and boot id of the file to this process, now and when the file changes.

    Must be called before any other module of the product is imported.
    """
    from pykubelet.linux import system

    with path.open("rb") as file:
        shared = mmap.mmap(file.fileno(), _LAYOUT.size, access=mmap.ACCESS_READ)
    real_time, real_time_ns, real_boot_id = time.time, time.time_ns, system.boot_id

    def boot_id(root: Path = Path("/")) -> str:
        return _LAYOUT.unpack_from(shared)[1].rstrip(b"\0").decode() or real_boot_id(root)

    _leave_grpc(real_time)
    time.time = lambda: real_time() + _LAYOUT.unpack_from(shared)[0]
    time.time_ns = lambda: real_time_ns() + int(_LAYOUT.unpack_from(shared)[0] * 1e9)
    system.boot_id = boot_id


def _leave_grpc(real_time: Callable[[], float]) -> None:
    """Exclude gRPC, which compares its deadlines with the kernel's clock: with a shifted clock all calls would fail."""
    from pykubelet.base.daemon import grpc_core

    grpc_core.configure("ERROR")  # as the command line does, before the import
    from grpc.aio import _utils

    vars(_utils)["time"] = SimpleNamespace(time=real_time)


def main() -> None:
    """Run the command line with the shift applied."""
    shift(Path(os.environ[VARIABLE]))
    from pykubelet.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
