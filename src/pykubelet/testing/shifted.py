"""Runs the command line in another time: ``python -m pykubelet.testing.shifted run …``.

The file named by ``PYKUBELET_SHIFT`` says by how many seconds the wall clock is wrong and, if anything, which boot id
the kernel has. Both may change while the program runs: so a daemon sees the clock jump or, at its next start, a reboot,
and the machine that the test shares with others does not.
"""

import mmap
import os
import struct
import time
from pathlib import Path

VARIABLE = "PYKUBELET_SHIFT"
_LAYOUT = struct.Struct("d36s")


def write_shift(path: Path, seconds: float = 0.0, boot_id: str = "") -> None:
    """Set the clock and the boot id (36 characters; none: the kernel's own). The file stays the same one."""
    data = _LAYOUT.pack(seconds, boot_id.encode())
    if not path.exists():
        path.write_bytes(data)
        return
    with path.open("r+b") as file:
        file.write(data)


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

    time.time = lambda: real_time() + _LAYOUT.unpack_from(shared)[0]
    time.time_ns = lambda: real_time_ns() + int(_LAYOUT.unpack_from(shared)[0] * 1e9)
    system.boot_id = boot_id


def main() -> None:
    """Run the command line."""
    shift(Path(os.environ[VARIABLE]))
    from pykubelet.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
