"""/metrics/cadvisor: cgroups, pods and containers, with the names and labels that dashboards and alerts expect. Pure.

The labels of a series are always ``container``, ``id``, ``image``, ``name``, ``namespace`` and ``pod``, empty where
they do not apply. The network series of a pod are on the pod's cgroup.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from pykubelet.base.exposition import Exposition, label_text
from pykubelet.kubelet.types.resources.stats import PsiStats
from pykubelet.kubelet.types.resources.usage import (
    CgroupUsage,
    CpuUsage,
    DiskActivity,
    MachineFacts,
    MemoryUsage,
    Reading,
    Readings,
)

Value: TypeAlias = float | None
_NS: Final = 1e9
_US: Final = 1e6
_MS: Final = 1e3

_CFS: Final[tuple[tuple[str, str, Callable[[CpuUsage], Value]], ...]] = (
    ("container_cpu_cfs_periods_total", "Elapsed enforcement periods.", lambda c: c.periods),
    ("container_cpu_cfs_throttled_periods_total", "Throttled periods.", lambda c: c.throttled_periods),
    ("container_cpu_cfs_throttled_seconds_total", "Seconds throttled.", lambda c: _s(c.throttled_ns)),
)
"""Only with a quota, as cAdvisor has them: without one the periods stay 0, and quotients of them are undefined."""
_CPU: Final[tuple[tuple[str, str, Callable[[CpuUsage], Value]], ...]] = (
    ("container_cpu_user_seconds_total", "User cpu time consumed in seconds.", lambda c: _s(c.user_ns)),
    (
        "container_cpu_system_seconds_total",
        "System cpu time consumed in seconds.",
        lambda c: _s(c.system_ns),
    ),
    *_CFS,
)
_CPU_SPEC: Final[tuple[tuple[str, str, Callable[[CpuUsage], Value]], ...]] = (
    ("container_spec_cpu_period", "CPU period.", lambda c: c.period_us),
    ("container_spec_cpu_quota", "CPU quota.", lambda c: c.quota_us),
    ("container_spec_cpu_shares", "CPU share.", lambda c: c.shares),
)
_MEMORY: Final[tuple[tuple[str, str, str, Callable[[MemoryUsage], Value]], ...]] = (
    ("container_memory_cache", "gauge", "Bytes of page cache.", lambda m: m.cache),
    ("container_memory_rss", "gauge", "Bytes of anonymous memory.", lambda m: m.rss),
    ("container_memory_kernel_usage", "gauge", "Bytes of kernel memory.", lambda m: m.kernel),
    ("container_memory_mapped_file", "gauge", "Bytes of mapped files.", lambda m: m.mapped_file),
    ("container_memory_swap", "gauge", "Bytes of swap.", lambda m: m.swap),
    ("container_memory_failcnt", "counter", "How often the limit was hit.", lambda m: m.failures),
    ("container_memory_usage_bytes", "gauge", "Bytes in use, with page cache.", lambda m: m.usage),
    ("container_memory_max_usage_bytes", "gauge", "Most bytes that were in use.", lambda m: m.max_usage),
    ("container_memory_working_set_bytes", "gauge", "Bytes of the working set.", lambda m: m.working_set),
    ("container_memory_total_active_file_bytes", "gauge", "Bytes of active file pages.", lambda m: m.active_file),
    ("container_memory_total_inactive_file_bytes", "gauge", "Bytes of inactive file pages.", lambda m: m.inactive_file),
    ("container_oom_events_total", "counter", "Out of memory events.", lambda m: m.oom_kills),
)
_MEMORY_SPEC: Final[tuple[tuple[str, str, Callable[[MemoryUsage], Value]], ...]] = (
    ("container_spec_memory_limit_bytes", "Memory limit; 0: none.", lambda m: m.limit or 0),
    ("container_spec_memory_swap_limit_bytes", "Swap limit; 0: none.", lambda m: m.swap_limit or 0),
    ("container_spec_memory_reservation_limit_bytes", "Memory reservation; 0: none.", lambda m: m.reservation or 0),
)
_FAILURES: Final = "container_memory_failures_total"
_NETWORK: Final = (
    ("container_network_receive_bytes_total", "Bytes received.", "rx_bytes"),
    ("container_network_receive_packets_total", "Packets received.", "rx_packets"),
    ("container_network_receive_packets_dropped_total", "Packets dropped while receiving.", "rx_dropped"),
    ("container_network_receive_errors_total", "Errors while receiving.", "rx_errors"),
    ("container_network_transmit_bytes_total", "Bytes sent.", "tx_bytes"),
    ("container_network_transmit_packets_total", "Packets sent.", "tx_packets"),
    ("container_network_transmit_packets_dropped_total", "Packets dropped while sending.", "tx_dropped"),
    ("container_network_transmit_errors_total", "Errors while sending.", "tx_errors"),
)
_FS: Final = (
    ("container_fs_usage_bytes", "Bytes in use on the file system.", "used"),
    ("container_fs_limit_bytes", "Bytes of the file system.", "capacity"),
    ("container_fs_inodes_total", "Inodes of the file system.", "inodes"),
    ("container_fs_inodes_free", "Free inodes of the file system.", "inodes_free"),
)
_IO: Final = (
    ("container_fs_reads_bytes_total", "Bytes read.", "read_bytes"),
    ("container_fs_reads_total", "Reads completed.", "reads"),
    ("container_fs_writes_bytes_total", "Bytes written.", "write_bytes"),
    ("container_fs_writes_total", "Writes completed.", "writes"),
)
_BLKIO: Final = ("container_blkio_device_usage_total", "counter", "Bytes by block device and operation.")
_DISK: Final[tuple[tuple[str, str, str, Callable[[DiskActivity], Value]], ...]] = (
    ("container_fs_io_current", "gauge", "Requests in progress.", lambda d: d.in_progress),
    ("container_fs_io_time_seconds_total", "counter", "Seconds with requests in progress.", lambda d: d.io_ms / _MS),
    (
        "container_fs_io_time_weighted_seconds_total",
        "counter",
        "Seconds multiplied by the requests in progress.",
        lambda d: d.weighted_io_ms / _MS,
    ),
    ("container_fs_read_seconds_total", "counter", "Seconds spent on reads.", lambda d: d.read_ms / _MS),
    ("container_fs_reads_merged_total", "counter", "Reads merged.", lambda d: d.reads_merged),
    ("container_fs_sector_reads_total", "counter", "Sectors read.", lambda d: d.sectors_read),
    ("container_fs_sector_writes_total", "counter", "Sectors written.", lambda d: d.sectors_written),
    ("container_fs_write_seconds_total", "counter", "Seconds spent on writes.", lambda d: d.write_ms / _MS),
    ("container_fs_writes_merged_total", "counter", "Writes merged.", lambda d: d.writes_merged),
)
"""Only of the node's disks: the kernel does not attribute them to cgroups."""
_PROCESSES: Final = (
    ("container_processes", "Processes.", "processes"),
    ("container_threads", "Threads.", "threads"),
    ("container_threads_max", "Most threads that there may be; 0: no limit.", "threads_max"),
    ("container_file_descriptors", "Open file descriptors.", "file_descriptors"),
    ("container_sockets", "Open sockets.", "sockets"),
)
_PRESSURE: Final = (("cpu", "cpu"), ("memory", "memory"), ("io", "io"))


def cadvisor_text(found: Readings) -> bytes:
    """Return the text of /metrics/cadvisor."""
    out = Exposition()
    for reading in found.readings:
        labels = label_text(
            (
                ("container", reading.container),
                ("id", reading.usage.path),
                ("image", reading.image),
                ("name", reading.container_id),
                ("namespace", reading.namespace),
                ("pod", reading.pod),
            )
        )
        _cgroup(out, labels, reading)
    _machine(out, found.machine)
    return out.render()


def _cgroup(out: Exposition, labels: str, reading: Reading) -> None:
    usage = reading.usage
    millis = int(usage.at * 1000)
    out.family("container_last_seen", "gauge", "Unix time when the container was last seen.")
    out.add("container_last_seen", labels, int(usage.at), millis)
    out.family("container_start_time_seconds", "gauge", "Unix time of the start.")
    out.add("container_start_time_seconds", labels, reading.started)
    if usage.cpu is not None:
        _cpu(out, labels, usage.cpu, millis)
    if usage.memory is not None:
        _memory(out, labels, usage.memory, millis)
    if usage.processes is not None:
        for name, text, attribute in _PROCESSES:
            _add(out, (name, "gauge", text), labels, getattr(usage.processes, attribute), millis)
        limit = label_text({"ulimit": "max_open_files"})
        row = ("container_ulimits_soft", "gauge", "Soft limits of the first process; -1: none.")
        _add(out, row, f"{labels},{limit}", usage.processes.open_files_limit, millis)
    _pressure(out, labels, usage, millis)
    _by_part(out, labels, "interface", _NETWORK, ((i.name, i) for i in reading.network), millis)
    _by_part(out, labels, "device", _FS, ((f.device, f) for f in reading.filesystems), millis, kind="gauge")
    _by_part(out, labels, "device", _IO, ((d.device, d) for d in usage.io), millis)
    _disks(out, labels, reading)


def _disks(out: Exposition, labels: str, reading: Reading) -> None:
    millis = int(reading.usage.at * 1000)
    for each in reading.usage.io:
        major, _, minor = each.number.partition(":")
        for operation, value in (("Read", each.read_bytes), ("Write", each.write_bytes)):
            own = label_text({"device": each.device, "major": major, "minor": minor, "operation": operation})
            _add(out, _BLKIO, f"{labels},{own}", value, millis)
    for filesystem in reading.filesystems:
        if filesystem.disk is not None:
            own = label_text({"device": filesystem.device})
            for name, kind, text, get in _DISK:
                _add(out, (name, kind, text), f"{labels},{own}", get(filesystem.disk), millis)


def _cpu(out: Exposition, labels: str, cpu: CpuUsage, millis: int) -> None:
    row = ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.")
    _add(out, row, f'{labels},cpu="total"', cpu.total_ns / _NS, millis)
    for name, text, value in _CPU if cpu.quota_us else _CPU[: -len(_CFS)]:
        _add(out, (name, "counter", text), labels, value(cpu), millis)
    for name, text, value in _CPU_SPEC:
        _add(out, (name, "gauge", text), labels, value(cpu), None)


def _memory(out: Exposition, labels: str, memory: MemoryUsage, millis: int) -> None:
    for name, kind, text, value in _MEMORY:
        _add(out, (name, kind, text), labels, value(memory), millis)
    for failure, count in (("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)):
        extra = label_text({"failure_type": failure, "scope": "hierarchy"})
        _add(out, (_FAILURES, "counter", "Memory allocation failures."), f"{labels},{extra}", count, millis)
    for name, text, value in _MEMORY_SPEC:
        _add(out, (name, "gauge", text), labels, value(memory), None)


def _pressure(out: Exposition, labels: str, usage: CgroupUsage, millis: int) -> None:
    for name, attribute in _PRESSURE:
        psi: PsiStats | None = getattr(usage.pressure, attribute)
        if psi is None:
            continue
        for kind, data in (("stalled", psi.full), ("waiting", psi.some)):
            row = (f"container_pressure_{name}_{kind}_seconds_total", "counter", f"Seconds of {name} pressure.")
            _add(out, row, labels, data.total / _US, millis)


def _by_part(
    out: Exposition,
    labels: str,
    label: str,
    rows: Iterable[tuple[str, str, str]],
    parts: Iterable[tuple[str, object]],
    millis: int,
    kind: str = "counter",
) -> None:
    """Add the series of each interface or device."""
    for part, values in parts:
        extra = label_text({label: part})
        for name, text, attribute in rows:
            _add(out, (name, kind, text), f"{labels},{extra}", getattr(values, attribute), millis)


def _machine(out: Exposition, machine: MachineFacts) -> None:
    labels = label_text(
        {"boot_id": machine.boot_id, "machine_id": machine.machine_id, "system_uuid": machine.system_uuid}
    )
    for name, text, value in (
        ("machine_cpu_cores", "Logical CPU cores.", machine.cores),
        ("machine_cpu_physical_cores", "Physical CPU cores.", machine.physical_cores),
        ("machine_cpu_sockets", "CPU sockets.", machine.sockets),
        ("machine_memory_bytes", "Bytes of memory.", machine.memory),
        ("machine_swap_bytes", "Bytes of swap.", machine.swap),
    ):
        _add(out, (name, "gauge", text), labels, value, None)
    _add(out, ("machine_scrape_error", "gauge", "1 if the machine could not be read."), "", 0, None)
    version = label_text({"kernelVersion": machine.kernel, "osVersion": machine.os_image})
    _add(out, ("cadvisor_version_info", "gauge", "Versions of kernel and system; always 1."), version, 1, None)
    _add(out, ("container_scrape_error", "gauge", "1 if containers could not be read."), "", 0, None)


def _add(out: Exposition, row: tuple[str, str, str], labels: str, value: Value, millis: int | None) -> None:
    name, kind, text = row
    out.family(name, kind, text)
    out.add(name, labels, value, millis)


def _s(nanoseconds: int | None) -> Value:
    return None if nanoseconds is None else nanoseconds / _NS
