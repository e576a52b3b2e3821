"""A cgroup with a limit into which a daemon is moved for a while, on cgroup v1 and v2. Blocking."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.linux.cgroups import detect

_FILES = {
    ("memory", 1): "memory.limit_in_bytes",
    ("memory", 2): "memory.max",
    ("pids", 1): "pids.max",
    ("pids", 2): "pids.max",
}


@contextlib.contextmanager
def cage(controller: str, name: str, pid: int, limit: int) -> Iterator[Path]:
    """Move the process into a new cgroup with that limit; at the end its processes are moved back."""
    top = _hierarchy(controller)
    home = top / _cgroup(pid, controller).strip("/")
    directory = top / name.strip("/")
    directory.mkdir()
    try:
        (directory / _FILES[controller, detect().version]).write_text(str(limit))
        (directory / "cgroup.procs").write_text(str(pid))
        yield directory
    finally:
        while pids := (directory / "cgroup.procs").read_text().split():
            for each in pids:
                with contextlib.suppress(ProcessLookupError):
                    (home / "cgroup.procs").write_text(each)
        directory.rmdir()


def _hierarchy(controller: str) -> Path:
    layout = detect()
    found = layout.controllers.get(controller) if layout.version == 1 else layout.unified
    if found is None:
        raise NotFound(f"the kernel offers no cgroup controller {controller}")
    return found


def _cgroup(pid: int, controller: str) -> str:
    unified = "/"
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
        if not controllers:
            unified = path
    return unified
