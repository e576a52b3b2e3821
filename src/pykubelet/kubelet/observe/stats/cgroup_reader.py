"""Reads control files of cgroups. Blocks, so it is called in threads. A cgroup that disappears meanwhile is None."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.plan import cgroup_files
from pykubelet.kubelet.types.resources.usage import CgroupUsage, Processes
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.cgroups.container_cgroup import container_cgroup

_V1_LIGHT: Final = {
    "cpuacct": ("cpuacct.usage",),
    "memory": ("memory.usage_in_bytes", "memory.stat", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    "pids": ("pids.current",),
}
_V1_FULL: Final = {
    "cpuacct": ("cpuacct.usage", "cpuacct.stat"),
    "cpu": ("cpu.stat", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory": (
        *_V1_LIGHT["memory"],
        "memory.max_usage_in_bytes",
        "memory.failcnt",
        "memory.soft_limit_in_bytes",
        "memory.kmem.usage_in_bytes",
        "memory.oom_control",
    ),
    "pids": ("pids.current", "pids.max"),
    "blkio": ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"),
}
_PRESSURE: Final = ("cpu.pressure", "memory.pressure", "io.pressure")
_V2_LIGHT: Final = (
    *("cpu.stat", "memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.swap.max"),
    *("pids.current", *_PRESSURE),
)
_V2_FULL: Final = (
    *_V2_LIGHT,
    *("cpu.max", "cpu.weight", "memory.peak", "memory.events", "memory.low", "pids.max", "io.stat"),
)
_MOST_CGROUPS: Final = 4096
_MOST_DESCRIPTORS: Final = 1 << 16
"""Of one cgroup; a process may have a million, which take up to 18 s to look at."""


class CgroupReader:
    """The reader of control files below the mount points of a layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._devices: dict[str, str] = {}

    def read(self, path: str, at: Seconds, *, full: bool) -> CgroupUsage | None:
        """Read the usage of a cgroup; ``full``: all that /metrics/cadvisor shows. ``at`` is recorded as its time."""
        directories = self.directories(path)
        created = _created(directories)
        if created is None:
            return None
        files = self._texts(directories, full)
        v2 = self._layout.mode is Mode.V2
        return CgroupUsage(
            path=path,
            at=at,
            created=created,
            cpu=cgroup_files.cpu_v2(files) if v2 else cgroup_files.cpu_v1(files),
            memory=cgroup_files.memory_v2(files) if v2 else cgroup_files.memory_v1(files),
            threads=cgroup_files.number(files.get("pids.current", "")),
            pressure=cgroup_files.pressure(files),
            io=(cgroup_files.io_v2 if v2 else cgroup_files.io_v1)(files, self._device) if full else (),
            processes=self._processes(directories, files) if full and path != "/" else None,
        )

    def cpu_ns(self, path: str) -> int | None:
        """Read the CPU time alone, from one file."""
        if self._layout.mode is Mode.V2:
            files = {"cpu.stat": _text(self.directories(path)[""] / "cpu.stat")}
            usage = cgroup_files.cpu_v2(files)
            return None if usage is None else usage.total_ns
        directory = self.directories(path).get("cpuacct")
        return None if directory is None else cgroup_files.number(_text(directory / "cpuacct.usage"))

    def directories(self, path: str) -> dict[str, Path]:
        """Return the cgroup's directory by controller; with cgroup v2 one directory, under an empty name."""
        relative = path.strip("/")
        if self._layout.mode is Mode.V2 and self._layout.unified is not None:
            return {"": container_cgroup(self._layout.unified / relative)}
        return {name: mount / relative for name, mount in self._layout.controllers.items()}

    def children(self, path: str) -> list[str]:
        """Return the names of the child cgroups; empty if the cgroup does not exist."""
        directories = self.directories(path)
        directory = directories.get("") or directories.get("memory") or directories.get("cpuacct")
        if directory is None:
            return []
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def pids(self, path: str) -> Iterator[int]:
        """Yield the processes in the cgroup and below."""
        directories = self.directories(path)
        directory = directories.get("") or directories.get("pids") or directories.get("cpuacct")
        return iter(()) if directory is None else _pids(directory)

    def _texts(self, directories: dict[str, Path], full: bool) -> dict[str, str]:
        if "" in directories:
            return {name: _text(directories[""] / name) for name in (_V2_FULL if full else _V2_LIGHT)}
        wanted = _V1_FULL if full else _V1_LIGHT
        return {
            name: _text(directories[controller] / name)
            for controller, names in wanted.items()
            if controller in directories
            for name in names
        }

    def _processes(self, directories: dict[str, Path], files: dict[str, str]) -> Processes:
        directory = directories.get("") or directories.get("pids") or directories["memory"]
        pids = list(_pids(directory))
        descriptors, sockets = _open_files(pids)
        return Processes(
            processes=len(pids),
            threads=cgroup_files.number(files.get("pids.current", "")),
            threads_max=cgroup_files.thread_limit(files.get("pids.max", "")),
            file_descriptors=descriptors,
            sockets=sockets,
            open_files_limit=_open_files_limit(pids[0]) if pids else None,
        )

    def _device(self, numbers: str) -> str:
        if numbers not in self._devices:
            link = Path(f"/sys/dev/block/{numbers}")
            self._devices[numbers] = f"/dev/{link.resolve().name}" if link.exists() else numbers
        return self._devices[numbers]


def _created(directories: dict[str, Path]) -> Seconds | None:
    """Return the creation time of the cgroup; None if it is in no hierarchy."""
    for name in ("", "memory", "cpuacct"):
        if name in directories:
            try:
                return directories[name].stat().st_ctime
            except OSError:
                continue
    return None


def _text(path: Path) -> str:
    # Path.read_text is slower, and this is called thousands of times per scrape.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 65536).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _pids(top: Path) -> Iterator[int]:
    """Yield the processes of a cgroup and of those below, of which a container may have made any number."""
    left = [top]
    for _ in range(_MOST_CGROUPS):
        if not left:
            return
        directory = left.pop()
        yield from (int(line) for line in _text(directory / "cgroup.procs").split())
        try:
            with os.scandir(directory) as entries:
                left.extend(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:  # it was removed, or its path is too long
            continue


def _open_files(pids: Iterable[int]) -> tuple[int, int]:
    """Return the number of descriptors, and of the sockets among them; of at most ``_MOST_DESCRIPTORS``."""
    found = (target for pid in pids for _, target in procfs.descriptors(pid))
    sockets = [target.startswith("socket:") for target in islice(found, _MOST_DESCRIPTORS)]
    return len(sockets), sum(sockets)


def _open_files_limit(pid: int) -> int | None:
    limit = procfs.limit(pid, "Max open files")
    return None if limit is None else cgroup_files.number(limit)
