"""Runs the command line in another time: ``python -m pykubelet.testing.shifted run …``.

The file named by ``PYKUBELET_SHIFT`` says by how many seconds the wall clock is wrong and, if anything, which boot id
the kernel has. Both may change while the program runs: so a daemon sees the clock jump or, at its next start, a reboot,
and the machine that the test shares with others does not.
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
    """The module that runs the command line of a daemon: this one where a shift is in the environment."""
    return "pykubelet.testing.shifted" if VARIABLE in os.environ else "pykubelet.cli"


@contextmanager
def jumping(path: Path, by: float, every: float) -> Iterator[None]:
    """Let the wall clock of daemons that are started meanwhile jump, ``every`` so many seconds.

    It is ``by`` seconds ahead, as much behind, then right. The file at ``path`` is made here.
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
    """Set the clock and the boot id (36 characters; none: the kernel's own). The file stays the same one."""
    data = _LAYOUT.pack(seconds, boot_id.encode())
    if not path.exists():
        path.write_bytes(data)
        return
    with path.open("r+b") as file:
        file.write(data)


def read_shift(path: Path) -> float:
    """By how many seconds the clock is wrong now."""
    return float(_LAYOUT.unpack(path.read_bytes())[0])


def shift(path: Path) -> None:
    """Put this process into the time and boot that the file says, now and when it changes.

    To be called before anything else of the product is imported.
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
    """A deadline of gRPC is a time of the kernel's clock for a moment: half in another time, all calls would fail."""
    from pykubelet.base import grpc_core

    grpc_core.configure("ERROR")  # as the command line does, before the import
    from grpc.aio import _utils

    vars(_utils)["time"] = SimpleNamespace(time=real_time)


def main() -> None:
    """Run the command line."""
    shift(Path(os.environ[VARIABLE]))
    from pykubelet.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
