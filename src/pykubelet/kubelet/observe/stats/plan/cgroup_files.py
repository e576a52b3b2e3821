"""Parsing of a cgroup's control files to its usage, for both cgroup versions (docs.kernel.org, "cgroup-v2"). Pure.

A missing file is an empty text. Formulas are those of the Go kubelet: the working set is usage without inactive file
pages, resident memory is anonymous memory.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pykubelet.kubelet.types.resources.stats import PsiData, PsiStats
from pykubelet.kubelet.types.resources.usage import CpuUsage, DeviceIo, MemoryUsage, Pressure
from pykubelet.linux.cgroups import convert
from pykubelet.linux.cgroups.cgroup_types import Stall

Texts = Mapping[str, str]
"""File name → content."""
DeviceName = Callable[[str], str]
"""``major:minor`` → path of the device."""

TICK_NS: Final = 10_000_000
"""Nanoseconds of a tick; USER_HZ is 100 on all supported architectures."""
_UNLIMITED: Final = 1 << 62
"""A v1 limit from this value on means no limit; the kernel rounds it to pages."""


def number(text: str) -> int | None:
    """Parse the number in a file; None for ``max``, an empty text or anything else."""
    word = text.strip()
    return int(word) if word.lstrip("-").isdecimal() else None


def thread_limit(text: str) -> int | None:
    """Parse ``pids.max``: 0 if there is no limit, as cAdvisor reports it; None if there is no such file."""
    return 0 if text.strip() == "max" else number(text)


def keyed(text: str) -> dict[str, int]:
    """Parse a file of ``name number`` lines."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def cpu_v1(files: Texts) -> CpuUsage | None:
    """Parse CPU usage from ``cpuacct.*`` and ``cpu.*``."""
    total = number(files.get("cpuacct.usage", ""))
    if total is None:
        return None
    split, throttling = keyed(files.get("cpuacct.stat", "")), keyed(files.get("cpu.stat", ""))
    quota = number(files.get("cpu.cfs_quota_us", ""))
    return CpuUsage(
        total_ns=total,
        user_ns=split["user"] * TICK_NS if "user" in split else None,
        system_ns=split["system"] * TICK_NS if "system" in split else None,
        shares=number(files.get("cpu.shares", "")),
        quota_us=quota if quota is not None and quota > 0 else None,
        period_us=number(files.get("cpu.cfs_period_us", "")),
        periods=throttling.get("nr_periods"),
        throttled_periods=throttling.get("nr_throttled"),
        throttled_ns=throttling.get("throttled_time"),
    )


def cpu_v2(files: Texts) -> CpuUsage | None:
    """Parse CPU usage from ``cpu.stat``, ``cpu.max`` and ``cpu.weight``."""
    stat = keyed(files.get("cpu.stat", ""))
    if "usage_usec" not in stat:
        return None
    limit = files.get("cpu.max", "").split()
    weight = number(files.get("cpu.weight", ""))
    return CpuUsage(
        total_ns=stat["usage_usec"] * 1000,
        user_ns=_times(stat.get("user_usec"), 1000),
        system_ns=_times(stat.get("system_usec"), 1000),
        shares=None if weight is None else 2 + (weight - 1) * 262142 // 9999,
        quota_us=number(limit[0]) if len(limit) == 2 else None,
        period_us=number(limit[1]) if len(limit) == 2 else None,
        periods=stat.get("nr_periods"),
        throttled_periods=stat.get("nr_throttled"),
        throttled_ns=_times(stat.get("throttled_usec"), 1000),
    )


def memory_v1(files: Texts) -> MemoryUsage | None:
    """Parse memory usage from ``memory.*`` of v1; the counters with ``total_`` include the cgroups below."""
    usage = number(files.get("memory.usage_in_bytes", ""))
    if usage is None:
        return None
    stat = keyed(files.get("memory.stat", ""))
    limit = _limit(files.get("memory.limit_in_bytes", ""))
    both = _limit(files.get("memory.memsw.limit_in_bytes", ""))
    inactive = stat.get("total_inactive_file", 0)
    return MemoryUsage(
        usage=usage,
        working_set=max(0, usage - inactive),
        rss=stat.get("total_rss", 0),
        cache=stat.get("total_cache", 0),
        mapped_file=stat.get("total_mapped_file", 0),
        active_file=stat.get("total_active_file", 0),
        inactive_file=inactive,
        kernel=number(files.get("memory.kmem.usage_in_bytes", "")),
        swap=stat.get("total_swap"),
        page_faults=stat.get("total_pgfault", 0),
        major_page_faults=stat.get("total_pgmajfault", 0),
        max_usage=number(files.get("memory.max_usage_in_bytes", "")),
        failures=number(files.get("memory.failcnt", "")),
        limit=limit,
        swap_limit=None if both is None else max(0, both - (limit or 0)),
        reservation=_limit(files.get("memory.soft_limit_in_bytes", "")),
        oom_kills=keyed(files.get("memory.oom_control", "")).get("oom_kill"),
    )


def memory_v2(files: Texts) -> MemoryUsage | None:
    """Parse memory usage from ``memory.*`` of v2."""
    usage = number(files.get("memory.current", ""))
    if usage is None:
        return None
    stat, events = keyed(files.get("memory.stat", "")), keyed(files.get("memory.events", ""))
    inactive = stat.get("inactive_file", 0)
    return MemoryUsage(
        usage=usage,
        working_set=max(0, usage - inactive),
        rss=stat.get("anon", 0),
        cache=stat.get("file", 0),
        mapped_file=stat.get("file_mapped", 0),
        active_file=stat.get("active_file", 0),
        inactive_file=inactive,
        kernel=stat.get("kernel"),
        swap=number(files.get("memory.swap.current", "")),
        page_faults=stat.get("pgfault", 0),
        major_page_faults=stat.get("pgmajfault", 0),
        max_usage=number(files.get("memory.peak", "")),
        failures=events.get("max"),
        limit=number(files.get("memory.max", "")),
        swap_limit=number(files.get("memory.swap.max", "")),
        reservation=number(files.get("memory.low", "")) or None,
        oom_kills=events.get("oom_kill"),
    )


def io_v1(files: Texts, name: DeviceName) -> tuple[DeviceIo, ...]:
    """Parse I/O from the counters of the throttling policy, which exist with every I/O scheduler."""
    sizes = _v1_operations(files.get("blkio.throttle.io_service_bytes_recursive", ""))
    counts = _v1_operations(files.get("blkio.throttle.io_serviced_recursive", ""))
    return tuple(
        DeviceIo(
            name(device),
            device,
            *(sizes.get(device, {}).get(what, 0) for what in ("Read", "Write")),
            *(counts.get(device, {}).get(what, 0) for what in ("Read", "Write")),
        )
        for device in sorted(sizes.keys() | counts.keys())
    )


def io_v2(files: Texts, name: DeviceName) -> tuple[DeviceIo, ...]:
    """Parse I/O from ``io.stat``."""
    found = []
    for words in map(str.split, files.get("io.stat", "").splitlines()):
        if not words:
            continue
        device, *pairs = words
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        numbers = (number(values.get(key, "")) or 0 for key in ("rbytes", "wbytes", "rios", "wios"))
        found.append(DeviceIo(name(device), device, *numbers))
    return tuple(found)


def pressure(files: Texts) -> Pressure:
    """Parse ``cpu.pressure``, ``memory.pressure`` and ``io.pressure``; the machine's files have the same format."""
    return Pressure(*(psi(files.get(f"{what}.pressure", "")) for what in ("cpu", "memory", "io")))


def psi(text: str) -> PsiStats | None:
    """Parse a pressure file; a line that older kernels lack counts as zero."""
    found = convert.pressure(text)
    return None if found is None else PsiStats(full=_stall(found.full), some=_stall(found.some))


def _stall(line: Stall) -> PsiData:
    return PsiData(line.total_us, line.avg10, line.avg60, line.avg300)


def _v1_operations(text: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for device, what, value in _triples(text.splitlines()):
        found.setdefault(device, {})[what] = int(value)
    return found


def _triples(lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[2].isdecimal():
            yield words[0], words[1], words[2]


def _limit(text: str) -> int | None:
    value = number(text)
    return None if value is None or value < 0 or value >= _UNLIMITED else value


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
