"""The cgroup v2 driver: one tree for all controllers, each enabled from parent to child."""

import logging
from pathlib import Path

from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups import convert
from pykubelet.linux.cgroups.cgroup_types import CgroupResources, CgroupStats, Pressure
from pykubelet.linux.cgroups.files import CgroupFiles, below

_log = logging.getLogger(__name__)

_WANTED = ("cpu", "cpuset", "memory", "pids", "hugetlb", "io")


class CgroupV2:
    """A `CgroupDriver` for cgroup v2; `root` is its mount point."""

    version = 2

    def __init__(self, root: Path, files: CgroupFiles | None = None) -> None:
        self._root = root
        self._files = files or CgroupFiles()

    def create(self, path: str, resources: CgroupResources) -> None:
        directory = self._root
        for part in self._directory(path).relative_to(self._root).parts:
            self._enable_controllers(directory)
            directory = directory / part
            self._files.make(directory)
        self.update(path, resources)

    def update(self, path: str, resources: CgroupResources) -> None:
        directory = self._directory(path)
        if not directory.is_dir():
            raise NotFound(f"cgroup {path} does not exist")
        for name, value in _settings(resources).items():
            self._write(directory, name, value)

    def delete(self, path: str) -> None:
        directory = self._directory(path)
        self._kill_at_once(directory)
        self._files.delete_trees((directory,))

    def kill(self, path: str) -> None:
        directory = self._directory(path)
        if not self._kill_at_once(directory):
            self._files.kill((directory,))

    def _kill_at_once(self, directory: Path) -> bool:
        """Kill the whole subtree at once, forks included; whether the kernel can (Linux 5.14)."""
        try:
            self._files.write(directory / "cgroup.kill", "1")
        except PykubeletError:
            return False
        return True

    def exists(self, path: str) -> bool:
        """Whether the cgroup exists with its controllers enabled: without them it limits nothing."""
        try:
            here = self._controllers(self._directory(path), "cgroup.controllers")
        except NotFound:
            return False
        return (self._available() & set(_WANTED)) - {"io"} <= here

    def children(self, path: str) -> frozenset[str]:
        return frozenset(self._files.subdirectories(self._directory(path)))

    def procs(self, path: str) -> frozenset[int]:
        return self._files.processes(self._files.part_of_tree(self._directory(path)))

    def stats(self, path: str) -> CgroupStats:
        directory = self._directory(path)
        if not directory.is_dir():
            raise NotFound(f"cgroup {path} does not exist")
        cpu = convert.flat_keyed(self._read(directory / "cpu.stat") or "")
        memory = convert.flat_keyed(self._read(directory / "memory.stat") or "")
        usage = self._read(directory / "memory.current")
        return CgroupStats(
            cpu_usage_ns=cpu["usage_usec"] * 1000 if "usage_usec" in cpu else None,
            memory_usage=_bytes(usage),
            memory_working_set=(None if usage is None else Bytes(max(0, int(usage) - memory.get("inactive_file", 0)))),
            memory_rss=Bytes(memory["anon"]) if "anon" in memory else None,
            swap=_bytes(self._read(directory / "memory.swap.current")),
            page_faults=memory.get("pgfault"),
            major_page_faults=memory.get("pgmajfault"),
            pids=_number(self._read(directory / "pids.current")),
            cpu_pressure=self._pressure(directory / "cpu.pressure"),
            memory_pressure=self._pressure(directory / "memory.pressure"),
            io_pressure=self._pressure(directory / "io.pressure"),
        )

    def limits(self, path: str) -> CgroupResources:
        directory = self._directory(path)
        if not directory.is_dir():
            raise NotFound(f"cgroup {path} does not exist")
        weight, memory = _number(self._read(directory / "cpu.weight")), self._read(directory / "memory.max")
        quota, _, period = (self._read(directory / "cpu.max") or "").strip().partition(" ")
        return CgroupResources(
            cpu_shares=None if weight is None else convert.weight_to_shares(weight),
            cpu_quota_us=convert.unlimited(quota),
            cpu_period_us=int(period) if period else None,
            memory_max=None if memory is None else Bytes(convert.unlimited(memory) or 0),
        )

    def _directory(self, path: str) -> Path:
        return below(self._root, path)

    def _available(self) -> frozenset[str]:
        return self._controllers(self._root, "cgroup.controllers")

    def _controllers(self, directory: Path, name: str) -> frozenset[str]:
        return frozenset(self._files.read(directory / name).split())

    def _enable_controllers(self, directory: Path) -> None:
        """Enable the controllers of a cgroup for its children."""
        on = self._controllers(directory, "cgroup.subtree_control")
        missing = [name for name in _WANTED if name in self._controllers(directory, "cgroup.controllers") - on]
        for name in missing:
            try:
                self._files.write(directory / "cgroup.subtree_control", f"+{name}")
            except Transient as error:
                raise Transient(
                    f"{error}: processes are in {directory} itself, and a cgroup with processes cannot pass "
                    "controllers on (set cgroupRoot to one without)"
                ) from error

    def _write(self, directory: Path, name: str, value: str) -> None:
        try:
            self._files.write(directory / name, value)
        except NotFound:
            # The kernel was built or booted without this controller, or without that file of it.
            _log.debug("cgroup setting skipped: no such file", extra={"file": name, "cgroup": str(directory)})

    def _pressure(self, path: Path) -> Pressure | None:
        try:
            return convert.pressure(self._read(path) or "")
        except PykubeletError:  # the kernel was started with psi=0
            return None

    def _read(self, path: Path) -> str | None:
        try:
            return self._files.read(path)
        except NotFound:
            return None


def _settings(resources: CgroupResources) -> dict[str, str]:
    """The files to write and their content. Pure."""
    files: dict[str, str] = {}
    if resources.cpu_shares is not None:
        files["cpu.weight"] = str(convert.shares_to_weight(resources.cpu_shares))
    if resources.cpu_quota_us is not None:
        files["cpu.max"] = convert.cpu_max(resources.cpu_quota_us, resources.cpu_period_us)
    limits = {
        "memory.min": resources.memory_min,
        "memory.low": resources.memory_low,
        "memory.high": resources.memory_high,
        "memory.max": resources.memory_max,
        "pids.max": resources.pids_max,
    }
    files |= {name: convert.limit(value) for name, value in limits.items() if value is not None}
    if resources.cpuset_cpus is not None:
        files["cpuset.cpus"] = resources.cpuset_cpus
    if resources.cpuset_mems is not None:
        files["cpuset.mems"] = resources.cpuset_mems
    for size, value in resources.hugepages:
        files[f"hugetlb.{size}.max"] = convert.limit(value)
        files[f"hugetlb.{size}.rsvd.max"] = convert.limit(value)
    return files | dict(resources.unified)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _bytes(text: str | None) -> Bytes | None:
    return None if text is None else Bytes(int(text))
