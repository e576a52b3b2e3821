"""What the processes of a container hold, from /proc. Blocking."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Of all of a container's processes together; ``open_files_limit`` is the first one's soft limit."""

    processes: int = 0
    threads: int = 0
    descriptors: int = 0
    sockets: int = 0
    open_files_limit: int | None = None


def measure(first: int, pids: Iterable[int]) -> ProcessUse:
    """Count for these processes; one that ends meanwhile counts for nothing."""
    processes = threads = descriptors = sockets = 0
    for pid in pids:
        with suppress(OSError):
            threads += sum(1 for _ in (_PROC / str(pid) / "task").iterdir())
            processes += 1
            for descriptor in (_PROC / str(pid) / "fd").iterdir():
                descriptors += 1
                with suppress(OSError):
                    sockets += str(descriptor.readlink()).startswith("socket:")
    return ProcessUse(processes, threads, descriptors, sockets, _open_files(first))


def _open_files(pid: int) -> int | None:
    with suppress(OSError):
        for line in (_PROC / str(pid) / "limits").read_text().splitlines():
            if line.startswith("Max open files"):
                soft = line.split()[3]
                return int(soft) if soft.isdecimal() else None
    return None
