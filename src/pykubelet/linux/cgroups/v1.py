"""The cgroup v1 driver: one tree per controller (or group of controllers), each mounted separately."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups import convert
from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupResources, CgroupStats
from pykubelet.linux.cgroups.files import CgroupFiles, below

_log = logging.getLogger(__name__)

# The controllers whose settings this driver writes or reads. The container runtime creates the others.
_NEEDED = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd")

_NO_MEMORY_LIMIT: Final = 1 << 62
"""Values from here on mean no limit: the kernel shows it as the largest number of whole pages."""


class CgroupV1:
    """A `CgroupDriver` for cgroup v1 and for the hybrid layout, where the controllers are on v1 too.

    `controllers` maps a controller to its mount point; `others` are the mount points of hierarchies in which the driver
    creates no cgroups, but removes those of the runtime.
    """

    version = 1

    def __init__(
        self,
        controllers: Mapping[str, Path],
        others: Iterable[Path] = (),
        *,
        files: CgroupFiles | None = None,
    ) -> None:
        self._controllers = controllers
        self._needed = tuple(dict.fromkeys(controllers[name] for name in _NEEDED if name in controllers))
        self._all = tuple(dict.fromkeys((*controllers.values(), *others)))
        self._files = files or CgroupFiles()

    def create(self, path: str, resources: CgroupResources) -> None:
        for mount in self._needed:
            self._make(mount, path)
        self.update(path, resources)

    def update(self, path: str, resources: CgroupResources) -> None:
        if not self.exists(path):
            raise NotFound(f"cgroup {path} does not exist")
        self._set_cpu(path, resources)
        if resources.memory_max is not None:
            self._set_memory(path, resources.memory_max)
        if resources.pids_max is not None:
            self._set("pids", path, "pids.max", convert.limit(resources.pids_max))
        if resources.cpuset_cpus is not None:
            self._set("cpuset", path, "cpuset.cpus", resources.cpuset_cpus)
        if resources.cpuset_mems is not None:
            self._set("cpuset", path, "cpuset.mems", resources.cpuset_mems)
        for size, limit in resources.hugepages:
            self._set_hugepages(path, size, limit)

    def delete(self, path: str) -> None:
        self._files.delete_trees(below(mount, path) for mount in self._all)

    def kill(self, path: str) -> None:
        mounts = {self._controllers.get(name, self._all[0]) for name in ("pids", "freezer")}
        self._files.kill(below(mount, path) for mount in mounts)

    def exists(self, path: str) -> bool:
        return all(below(mount, path).is_dir() for mount in self._needed)

    def children(self, path: str) -> frozenset[str]:
        return frozenset(name for mount in self._all for name in self._files.subdirectories(below(mount, path)))

    def procs(self, path: str) -> frozenset[int]:
        mount = self._controllers.get("pids", self._all[0])
        return self._files.processes(self._files.part_of_tree(below(mount, path)))

    def stats(self, path: str) -> CgroupStats:
        if not any(below(mount, path).is_dir() for mount in self._needed):
            raise NotFound(f"cgroup {path} does not exist")
        memory = convert.flat_keyed(self._get("memory", path, "memory.stat") or "")
        usage = _number(self._get("memory", path, "memory.usage_in_bytes"))
        inactive = memory.get("total_inactive_file", 0)
        return CgroupStats(
            cpu_usage_ns=_number(self._get("cpuacct", path, "cpuacct.usage")),
            memory_usage=_bytes(usage),
            memory_working_set=None if usage is None else Bytes(max(0, usage - inactive)),
            memory_rss=_bytes(memory.get("total_rss")),
            swap=_bytes(memory.get("total_swap")),
            page_faults=memory.get("total_pgfault"),
            major_page_faults=memory.get("total_pgmajfault"),
            pids=_number(self._get("pids", path, "pids.current")),
        )

    def limits(self, path: str) -> CgroupResources:
        if not self.exists(path):
            raise NotFound(f"cgroup {path} does not exist")
        memory = _number(self._get("memory", path, "memory.limit_in_bytes"))
        return CgroupResources(
            cpu_shares=_number(self._get("cpu", path, "cpu.shares")),
            cpu_quota_us=_number(self._get("cpu", path, "cpu.cfs_quota_us")),
            cpu_period_us=_number(self._get("cpu", path, "cpu.cfs_period_us")),
            memory_max=_bytes(UNLIMITED if memory is not None and memory >= _NO_MEMORY_LIMIT else memory),
        )

    def _make(self, mount: Path, path: str) -> None:
        directory = mount
        for part in below(mount, path).relative_to(mount).parts:
            parent, directory = directory, directory / part
            self._files.make(directory)
            # An existing cpuset too may still be empty, if the process was killed between the two steps.
            if mount == self._controllers.get("cpuset"):
                self._inherit_cpuset(parent, directory)

    def _inherit_cpuset(self, parent: Path, directory: Path) -> None:
        """Copy CPUs and memory nodes of the parent: a new cpuset is empty and accepts no process."""
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not self._files.read(directory / name).strip():
                self._files.write(directory / name, self._files.read(parent / name).strip())

    def _set_cpu(self, path: str, resources: CgroupResources) -> None:
        if resources.cpu_shares is not None:
            self._set("cpu", path, "cpu.shares", str(resources.cpu_shares))
        period, quota = resources.cpu_period_us, resources.cpu_quota_us
        try:
            self._set_optional("cpu", path, "cpu.cfs_period_us", period)
        except Invalid:
            # The kernel checks quota/period against the parent after each write; the other order may succeed.
            if quota is None:
                raise
            self._set("cpu", path, "cpu.cfs_quota_us", str(quota))
            self._set_optional("cpu", path, "cpu.cfs_period_us", period)
            return
        self._set_optional("cpu", path, "cpu.cfs_quota_us", quota)

    def _set_memory(self, path: str, limit: Bytes) -> None:
        try:
            self._set("memory", path, "memory.limit_in_bytes", str(limit))
        except Transient as error:
            usage = self._get("memory", path, "memory.usage_in_bytes")
            raise Transient(f"{error} ({(usage or '?').strip()} bytes are in use now)") from error

    def _set_hugepages(self, path: str, size: str, limit: Bytes) -> None:
        mount = self._controllers.get("hugetlb")
        if mount is None:
            return
        for name in (f"hugetlb.{size}.limit_in_bytes", f"hugetlb.{size}.rsvd.limit_in_bytes"):
            try:
                self._files.write(below(mount, path) / name, str(limit))
            except NotFound:
                continue

    def _set_optional(self, controller: str, path: str, name: str, value: int | None) -> None:
        if value is not None:
            self._set(controller, path, name, str(value))

    def _set(self, controller: str, path: str, name: str, value: str) -> None:
        mount = self._controllers.get(controller)
        if mount is None:
            _log.debug("cgroup setting skipped: no such controller", extra={"file": name, "cgroup": path})
            return
        self._files.write(below(mount, path) / name, value)

    def _get(self, controller: str, path: str, name: str) -> str | None:
        mount = self._controllers.get(controller)
        try:
            return None if mount is None else self._files.read(below(mount, path) / name)
        except NotFound:
            return None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _bytes(number: int | None) -> Bytes | None:
    return None if number is None else Bytes(number)
