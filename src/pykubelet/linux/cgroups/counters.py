"""All counters of a cgroup, for metrics. The figures that eviction and summaries need are in ``CgroupStats``."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base.units import Bytes
from pykubelet.linux.cgroups.container_cgroup import container_cgroup
from pykubelet.linux.cgroups.convert import flat_keyed
from pykubelet.linux.cgroups.detect import Layout, Mode


class DeviceUse(Struct, frozen=True):
    """Bytes and operations on one block device. ``operation`` is ``Read`` or ``Write``."""

    major: int
    minor: int
    operation: str
    bytes: Bytes
    count: int


class HugepageUse(Struct, frozen=True):
    """Huge pages of one size (``2MB``)."""

    size: str
    used: Bytes
    peak: Bytes | None
    """None where the kernel does not keep it (version 2)."""


class CgroupCounters(Struct, frozen=True):
    """Counters since the creation of a cgroup, and gauges. Figures that the kernel does not report are left out.

    ``values`` by name: ``cpu_user_ns cpu_system_ns periods throttled_periods throttled_ns memory_peak memory_cache
    memory_mapped memory_kernel memory_failures threads_max oom_kills``. ``faults`` by (kind, scope).
    ``pressure`` in microseconds by (resource, ``waiting`` or ``stalled``); version 2 only.
    """

    values: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[tuple[str, str], int] = field(default_factory=dict)
    devices: tuple[DeviceUse, ...] = ()
    hugepages: tuple[HugepageUse, ...] = ()
    pressure: Mapping[tuple[str, str], int] = field(default_factory=dict)


class CgroupCounterReader:
    """Reads the counters of cgroups. Blocks briefly; missing figures are left out."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._v2 = layout.mode is Mode.V2

    def read(self, path: str) -> CgroupCounters:
        """Read the counters of a cgroup by its path below the root of the hierarchies."""
        return self._read_v2(path) if self._v2 else self._read_v1(path)

    def _read_v2(self, path: str) -> CgroupCounters:
        directory = self._layout.unified
        if directory is None:
            return CgroupCounters()
        directory = container_cgroup(directory / path.lstrip("/"))
        cpu, memory = flat_keyed(_text(directory / "cpu.stat")), flat_keyed(_text(directory / "memory.stat"))
        events = flat_keyed(_text(directory / "memory.events"))
        values = {
            "cpu_user_ns": _times(cpu.get("user_usec"), 1000),
            "cpu_system_ns": _times(cpu.get("system_usec"), 1000),
            "periods": cpu.get("nr_periods"),
            "throttled_periods": cpu.get("nr_throttled"),
            "throttled_ns": _times(cpu.get("throttled_usec"), 1000),
            "memory_peak": _number(_text(directory / "memory.peak")),
            "memory_cache": memory.get("file"),
            "memory_mapped": memory.get("file_mapped"),
            "memory_kernel": memory.get("kernel"),
            "memory_failures": events.get("max"),
            "threads_max": _number(_text(directory / "pids.max")),
            "oom_kills": events.get("oom_kill"),
        }
        return CgroupCounters(
            _present(values),
            _faults(memory, memory),
            parse_io_stat(_text(directory / "io.stat")),
            _hugepages(directory, "current"),
            _pressure(directory),
        )

    def _read_v1(self, path: str) -> CgroupCounters:
        cpu = flat_keyed(self._v1("cpu", path, "cpu.stat"))
        memory = flat_keyed(self._v1("memory", path, "memory.stat"))
        values = {
            "cpu_user_ns": _number(self._v1("cpuacct", path, "cpuacct.usage_user")),
            "cpu_system_ns": _number(self._v1("cpuacct", path, "cpuacct.usage_sys")),
            "periods": cpu.get("nr_periods"),
            "throttled_periods": cpu.get("nr_throttled"),
            "throttled_ns": cpu.get("throttled_time"),
            "memory_peak": _number(self._v1("memory", path, "memory.max_usage_in_bytes")),
            "memory_cache": memory.get("total_cache"),
            "memory_mapped": memory.get("total_mapped_file"),
            "memory_kernel": _number(self._v1("memory", path, "memory.kmem.usage_in_bytes")),
            "memory_failures": _number(self._v1("memory", path, "memory.failcnt")),
            "threads_max": _number(self._v1("pids", path, "pids.max")),
            "oom_kills": flat_keyed(self._v1("memory", path, "memory.oom_control")).get("oom_kill"),
        }
        total = {name.removeprefix("total_"): value for name, value in memory.items() if name.startswith("total_")}
        amounts = self._v1("blkio", path, "blkio.throttle.io_service_bytes_recursive")
        counts = self._v1("blkio", path, "blkio.throttle.io_serviced_recursive")
        hugetlb = self._layout.controllers.get("hugetlb")
        pages = (
            () if hugetlb is None else _hugepages(hugetlb / path.lstrip("/"), "usage_in_bytes", "max_usage_in_bytes")
        )
        return CgroupCounters(_present(values), _faults(memory, total), parse_blkio(amounts, counts), pages)

    def _v1(self, controller: str, path: str, name: str) -> str:
        mount = self._layout.controllers.get(controller)
        return "" if mount is None else _text(mount / path.lstrip("/") / name)


def parse_io_stat(text: str) -> tuple[DeviceUse, ...]:
    """Parse ``io.stat`` of version 2. Pure."""
    found: list[DeviceUse] = []
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        major, colon, minor = device.partition(":")
        pairs = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        if not colon:
            continue
        for operation, amount, count in (("Read", "rbytes", "rios"), ("Write", "wbytes", "wios")):
            if amount in pairs:
                number = int(pairs.get(count, 0))
                found.append(DeviceUse(int(major), int(minor), operation, Bytes(int(pairs[amount])), number))
    return tuple(found)


def parse_blkio(amounts: str, counts: str) -> tuple[DeviceUse, ...]:
    """Parse the two ``blkio.throttle`` files of version 1: ``8:0 Read 4096``. Pure."""
    number = dict(_blkio_rows(counts))
    return tuple(
        DeviceUse(major, minor, operation, Bytes(amount), number.get((major, minor, operation), 0))
        for (major, minor, operation), amount in _blkio_rows(amounts)
        if operation in ("Read", "Write")
    )


def _blkio_rows(text: str) -> list[tuple[tuple[int, int, str], int]]:
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and ":" in words[0]:
            major, _, minor = words[0].partition(":")
            rows.append(((int(major), int(minor), words[1]), int(words[2])))
    return rows


def _faults(own: Mapping[str, int], tree: Mapping[str, int]) -> dict[tuple[str, str], int]:
    return {
        (kind, scope): source[kind]
        for kind in ("pgfault", "pgmajfault")
        for scope, source in (("container", own), ("hierarchy", tree))
        if kind in source
    }


def _hugepages(directory: Path, used: str, peak: str = "") -> tuple[HugepageUse, ...]:
    found = []
    for path in sorted(directory.glob(f"hugetlb.*.{used}")):
        size = path.name.split(".")[1]
        if path.name == f"hugetlb.{size}.{used}":  # not those of reservations
            most = _number(_text(directory / f"hugetlb.{size}.{peak}")) if peak else None
            found.append(HugepageUse(size, Bytes(_number(_text(path)) or 0), None if most is None else Bytes(most)))
    return tuple(found)


def _pressure(directory: Path) -> dict[tuple[str, str], int]:
    """Read ``cpu.pressure``, ``memory.pressure`` and ``io.pressure`` (Linux 5.2): ``some avg10=0.00 … total=4711``."""
    found: dict[tuple[str, str], int] = {}
    for resource in ("cpu", "memory", "io"):
        for line in _text(directory / f"{resource}.pressure").splitlines():
            kind, _, rest = line.partition(" ")
            total = rest.rpartition("total=")[2]
            if kind in ("some", "full") and total.isdecimal():
                found[resource, "waiting" if kind == "some" else "stalled"] = int(total)
    return found


def _present(values: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def _number(text: str) -> int | None:
    text = text.strip()
    if text == "max":
        return 0  # 0 means "no limit" in metrics
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
