"""The systemd cgroup driver: each cgroup is a slice unit, so that systemd alone manages the top of the tree.

systemd creates and removes the slices and knows their limits (it writes them again when it reloads). The kernel's files
are written too, for settings without a systemd property. Version 2 only.

Source: systemd.resource-control(5), "Control Group APIs and Delegation".
"""

import math
from typing import Final

from pykubelet.base.errors import Conflict, Invalid, NotFound
from pykubelet.linux.cgroups import convert
from pykubelet.linux.cgroups.cgroup_types import UNLIMITED, CgroupDriver, CgroupResources, CgroupStats
from pykubelet.linux.transient_units import Property, Units

SLICE: Final = ".slice"
_INFINITY: Final = (1 << 64) - 1
_QUOTA_STEP_US: Final = 10_000


class CgroupSystemd:
    """A `CgroupDriver` whose paths are those of slices: ``/a.slice/a-b.slice``."""

    def __init__(self, files: CgroupDriver, units: Units) -> None:
        self._files = files
        self._units = units

    @property
    def version(self) -> int:
        return self._files.version

    def create(self, path: str, resources: CgroupResources) -> None:
        names = _slices(path)
        above = ""
        for depth, name in enumerate(names):
            last = depth == len(names) - 1
            if last or not self._files.exists(f"{above}/{name}"):
                self._start(name, names[depth - 1] if depth else "", resources if last else CgroupResources())
            above += f"/{name}"
        self._files.create(path, resources)

    def update(self, path: str, resources: CgroupResources) -> None:
        settings = properties(resources)
        if settings:
            self._units.set_properties(_slices(path)[-1], settings)
        self._files.update(path, resources)

    def delete(self, path: str) -> None:
        name = _slices(path)[-1]
        above, _, _ = path.rstrip("/").rpartition("/")
        if above and name not in self._files.children(above):
            return
        # Kill the processes first: systemd would wait for them when it stops the slice.
        self._files.delete(path)
        try:
            self._units.stop(name)
        except NotFound:
            return
        # systemd may have created the cgroup again in the meantime.
        self._files.delete(path)

    def kill(self, path: str) -> None:
        self._files.kill(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def children(self, path: str) -> frozenset[str]:
        return self._files.children(path)

    def stats(self, path: str) -> CgroupStats:
        return self._files.stats(path)

    def limits(self, path: str) -> CgroupResources:
        return self._files.limits(path)

    def procs(self, path: str) -> frozenset[int]:
        return self._files.procs(path)

    def _start(self, name: str, parent: str, resources: CgroupResources) -> None:
        settings = properties(resources)
        accounting = (Property(f"{each}Accounting", "b", True) for each in ("CPU", "Memory", "IO", "Tasks"))
        wants = [Property("Wants", "as", [parent])] if parent else []
        description = Property("Description", "s", f"pods of pykubelet: {name}")
        fixed = [description, Property("DefaultDependencies", "b", False), *accounting, *wants]
        try:
            self._units.start_transient(name, [*fixed, *settings])
        except Conflict:
            if settings:
                self._units.set_properties(name, settings)


def properties(resources: CgroupResources) -> list[Property]:
    """The systemd properties for the settings that have one. Pure."""
    found: list[Property] = []
    if resources.cpu_shares is not None:
        found.append(Property("CPUWeight", "t", convert.shares_to_weight(resources.cpu_shares)))
    if resources.cpu_quota_us is not None:
        period = resources.cpu_period_us or convert.DEFAULT_PERIOD_US
        found.append(Property("CPUQuotaPeriodUSec", "t", period))
        found.append(Property("CPUQuotaPerSecUSec", "t", _quota_per_second(resources.cpu_quota_us, period)))
    limits = {
        "MemoryMin": resources.memory_min,
        "MemoryLow": resources.memory_low,
        "MemoryHigh": resources.memory_high,
        "MemoryMax": resources.memory_max,
        "TasksMax": resources.pids_max,
    }
    found += [
        Property(name, "t", _INFINITY if value == UNLIMITED else int(value))
        for name, value in limits.items()
        if value is not None
    ]
    return found


def expand(name: str) -> str:
    """The path of a slice by its name: ``a-b.slice`` is ``/a.slice/a-b.slice``. Invalid: not the name of a slice."""
    stem = name.removesuffix(SLICE)
    parts = stem.split("-")
    if stem == name or "/" in stem or not all(parts):
        raise Invalid(f"{name!r} is not the name of a slice")
    return "".join(f"/{'-'.join(parts[: depth + 1])}{SLICE}" for depth in range(len(parts)))


def _quota_per_second(quota_us: int, period_us: int) -> int:
    """The CPU quota as time per second in µs; rounded up, since systemd accepts steps of 10 ms."""
    if quota_us == UNLIMITED:
        return _INFINITY
    return math.ceil(quota_us * 1_000_000 / period_us / _QUOTA_STEP_US) * _QUOTA_STEP_US


def _slices(path: str) -> list[str]:
    names = [part for part in path.split("/") if part]
    if not names or expand(names[-1]) != "/" + "/".join(names):
        raise Invalid(f"{path!r} is not the path of a slice")
    return names
