"""The metrics of containers and pods: their names and labels, and how each is derived from the measurements. Pure.

The names are those that cAdvisor uses for the same figures, since dashboards refer to them. CRI transports integers
only, so times are whole seconds (KEP-2371).
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from pykubelet.criserver.stats.processes import ProcessUse
from pykubelet.linux.cgroups import CgroupStats
from pykubelet.linux.cgroups.counters import CgroupCounters
from pykubelet.linux.filesystems.fsusage import FsUsage
from pykubelet.linux.procparse import NetDevice
from pykubelet.pb import runtime_v1_pb2 as pb

LABELS = ("container", "id", "image", "name", "namespace", "pod")
"""Labels of every metric, before its own labels."""
_NS = 1_000_000_000
_US = 1_000_000

Row = tuple[tuple[str, ...], int]
"""The values of the metric's own labels, and its value."""


class Disk(Struct, frozen=True):
    """The writable layer: its path, the space it takes in bytes, and the usage of its file system."""

    device: str
    used: int
    filesystem: FsUsage


class ContainerFacts(Struct, frozen=True):
    """All measurements of a container; times are in nanoseconds since the epoch."""

    now: int
    started_at: int
    stats: CgroupStats
    counters: CgroupCounters
    processes: ProcessUse
    resources: pb.LinuxContainerResources
    disk: Disk | None = None


class Definition(Struct, frozen=True):
    """Definition of a metric. ``rows`` yields nothing if the kernel does not report the figure."""

    name: str
    help: str
    rows: Callable[[ContainerFacts], Iterable[Row]]
    labels: tuple[str, ...] = ()
    gauge: bool = False


def _value(name: str, divisor: int = 1) -> Callable[[ContainerFacts], Iterator[Row]]:
    def rows(facts: ContainerFacts) -> Iterator[Row]:
        if name in facts.counters.values:
            yield (), facts.counters.values[name] // divisor

    return rows


def _one(get: Callable[[ContainerFacts], int | None]) -> Callable[[ContainerFacts], Iterator[Row]]:
    def rows(facts: ContainerFacts) -> Iterator[Row]:
        value = get(facts)
        if value is not None:
            yield (), max(0, value)

    return rows


def _device(major: int, minor: int) -> str:
    return f"{major}:{minor}"


def _io(operation: str, amount: bool) -> Callable[[ContainerFacts], Iterator[Row]]:
    def rows(facts: ContainerFacts) -> Iterator[Row]:
        for use in facts.counters.devices:
            if use.operation == operation:
                yield (_device(use.major, use.minor),), use.bytes if amount else use.count

    return rows


def _disk(get: Callable[[Disk], int]) -> Callable[[ContainerFacts], Iterator[Row]]:
    def rows(facts: ContainerFacts) -> Iterator[Row]:
        if facts.disk is not None:
            yield (facts.disk.device,), get(facts.disk)

    return rows


def _pressure(resource: str, kind: str) -> Callable[[ContainerFacts], Iterator[Row]]:
    def rows(facts: ContainerFacts) -> Iterator[Row]:
        if (resource, kind) in facts.counters.pressure:
            yield (), facts.counters.pressure[resource, kind] // _US

    return rows


def _block_devices(facts: ContainerFacts) -> Iterator[Row]:
    for use in facts.counters.devices:
        labels = (_device(use.major, use.minor), str(use.major), str(use.minor), use.operation)
        yield labels, use.bytes


def _hugepages_used(facts: ContainerFacts) -> Iterator[Row]:
    return (((use.size,), use.used) for use in facts.counters.hugepages)


def _hugepages_peak(facts: ContainerFacts) -> Iterator[Row]:
    return (((use.size,), use.peak) for use in facts.counters.hugepages if use.peak is not None)


def _faults(facts: ContainerFacts) -> Iterator[Row]:
    return iter(facts.counters.faults.items())


def _open_files(facts: ContainerFacts) -> Iterator[Row]:
    limit = facts.processes.open_files_limit
    if limit is not None:
        yield ("max_open_files",), limit


_CPU = (
    Definition("container_cpu_usage_seconds_total", "CPU time used.", _one(lambda f: _seconds(f.stats.cpu_usage_ns))),
    Definition("container_cpu_user_seconds_total", "CPU time used in user mode.", _value("cpu_user_ns", _NS)),
    Definition("container_cpu_system_seconds_total", "CPU time used in kernel mode.", _value("cpu_system_ns", _NS)),
    Definition("container_cpu_cfs_periods_total", "Periods of the CPU quota that have passed.", _value("periods")),
    Definition(
        "container_cpu_cfs_throttled_periods_total", "Periods in which the quota ran out.", _value("throttled_periods")
    ),
    Definition(
        "container_cpu_cfs_throttled_seconds_total", "Time waited for a new quota.", _value("throttled_ns", _NS)
    ),
)
_MEMORY = (
    Definition("container_memory_usage_bytes", "With page cache.", _one(lambda f: f.stats.memory_usage), gauge=True),
    Definition(
        "container_memory_working_set_bytes",
        "Without page cache that can be dropped at once.",
        _one(lambda f: f.stats.memory_working_set),
        gauge=True,
    ),
    Definition("container_memory_rss", "Anonymous memory in bytes.", _one(lambda f: f.stats.memory_rss), gauge=True),
    Definition("container_memory_swap", "Swap used in bytes.", _one(lambda f: f.stats.swap or 0), gauge=True),
    Definition("container_memory_cache", "Page cache in bytes.", _value("memory_cache"), gauge=True),
    Definition("container_memory_mapped_file", "Mapped files in bytes.", _value("memory_mapped"), gauge=True),
    Definition("container_memory_kernel_usage", "Kernel memory in bytes.", _value("memory_kernel"), gauge=True),
    Definition("container_memory_max_usage_bytes", "The most ever used.", _value("memory_peak"), gauge=True),
    Definition("container_memory_failcnt", "How often the limit was reached.", _value("memory_failures")),
    Definition("container_memory_failures_total", "Page faults.", _faults, ("failure_type", "scope")),
    Definition("container_oom_events_total", "Processes that were OOM-killed.", _value("oom_kills")),
    Definition("container_hugetlb_usage_bytes", "Huge pages used.", _hugepages_used, ("pagesize",), gauge=True),
    Definition("container_hugetlb_max_usage_bytes", "The most ever used.", _hugepages_peak, ("pagesize",), gauge=True),
)
_DISK = (
    Definition("container_fs_usage_bytes", "Written layer.", _disk(lambda d: d.used), ("device",), gauge=True),
    Definition(
        "container_fs_limit_bytes", "Size of the disk.", _disk(lambda d: d.filesystem.capacity), ("device",), gauge=True
    ),
    Definition(
        "container_fs_inodes_total", "Of the disk.", _disk(lambda d: d.filesystem.inodes), ("device",), gauge=True
    ),
    Definition(
        "container_fs_inodes_free", "Of the disk.", _disk(lambda d: d.filesystem.inodes_free), ("device",), gauge=True
    ),
    Definition("container_fs_reads_bytes_total", "Bytes read.", _io("Read", True), ("device",)),
    Definition("container_fs_reads_total", "Reads.", _io("Read", False), ("device",)),
    Definition("container_fs_writes_bytes_total", "Bytes written.", _io("Write", True), ("device",)),
    Definition("container_fs_writes_total", "Writes.", _io("Write", False), ("device",)),
    Definition(
        "container_blkio_device_usage_total",
        "Bytes read and written by block device.",
        _block_devices,
        ("device", "major", "minor", "operation"),
    ),
)
_PROCESSES = (
    Definition("container_processes", "Processes.", _one(lambda f: f.processes.processes), gauge=True),
    Definition("container_threads", "Threads.", _one(lambda f: f.processes.threads), gauge=True),
    Definition("container_threads_max", "Most threads allowed, 0 for any.", _value("threads_max"), gauge=True),
    Definition("container_file_descriptors", "Open files.", _one(lambda f: f.processes.descriptors), gauge=True),
    Definition("container_sockets", "Open sockets.", _one(lambda f: f.processes.sockets), gauge=True),
    Definition("container_ulimits_soft", "Soft limits of the first process.", _open_files, ("ulimit",), gauge=True),
)
_SPEC = (
    Definition("container_last_seen", "When this was measured.", _one(lambda f: f.now // _NS), gauge=True),
    Definition("container_start_time_seconds", "When it started.", _one(lambda f: f.started_at // _NS), gauge=True),
    Definition("container_spec_cpu_period", "In microseconds.", _one(lambda f: f.resources.cpu_period), gauge=True),
    Definition(
        "container_spec_cpu_quota", "In microseconds.", _one(lambda f: f.resources.cpu_quota or None), gauge=True
    ),
    Definition("container_spec_cpu_shares", "Weight.", _one(lambda f: f.resources.cpu_shares), gauge=True),
    Definition(
        "container_spec_memory_limit_bytes", "Limit.", _one(lambda f: f.resources.memory_limit_in_bytes), gauge=True
    ),
    Definition("container_spec_memory_reservation_limit_bytes", "None is set.", _one(lambda f: 0), gauge=True),
    Definition(
        "container_spec_memory_swap_limit_bytes",
        "Limit of memory and swap.",
        _one(lambda f: f.resources.memory_swap_limit_in_bytes),
        gauge=True,
    ),
)
_PRESSURES = tuple(
    Definition(
        f"container_pressure_{resource}_{kind}_seconds_total",
        f"Time in which {'some tasks' if kind == 'waiting' else 'all tasks'} waited for {resource}.",
        _pressure(resource, kind),
    )
    for resource in ("cpu", "memory", "io")
    for kind in ("waiting", "stalled")
)
CONTAINER = (*_CPU, *_MEMORY, *_DISK, *_PROCESSES, *_SPEC, *_PRESSURES)

_NETWORK: tuple[tuple[str, str, Callable[[NetDevice], int]], ...] = (
    ("container_network_receive_bytes_total", "Bytes received.", lambda i: i.rx_bytes),
    ("container_network_receive_packets_total", "Packets received.", lambda i: i.rx_packets),
    ("container_network_receive_packets_dropped_total", "Packets dropped on receipt.", lambda i: i.rx_dropped),
    ("container_network_receive_errors_total", "Errors on receipt.", lambda i: i.rx_errors),
    ("container_network_transmit_bytes_total", "Bytes sent.", lambda i: i.tx_bytes),
    ("container_network_transmit_packets_total", "Packets sent.", lambda i: i.tx_packets),
    ("container_network_transmit_packets_dropped_total", "Packets dropped on sending.", lambda i: i.tx_dropped),
    ("container_network_transmit_errors_total", "Errors on sending.", lambda i: i.tx_errors),
)


def descriptors() -> list[pb.MetricDescriptor]:
    """The descriptors of all metrics."""
    found = [
        pb.MetricDescriptor(name=each.name, help=each.help, label_keys=(*LABELS, *each.labels)) for each in CONTAINER
    ]
    found += [
        pb.MetricDescriptor(name=name, help=text, label_keys=(*LABELS, "interface")) for name, text, _ in _NETWORK
    ]
    return found


def container_metrics(labels: tuple[str, ...], facts: ContainerFacts) -> list[pb.Metric]:
    """The metrics of a running container; ``labels`` are the values for ``LABELS``."""
    return [
        pb.Metric(
            name=each.name,
            metric_type=pb.GAUGE if each.gauge else pb.COUNTER,
            label_values=(*labels, *own),
            value=pb.UInt64Value(value=value),
        )
        for each in CONTAINER
        for own, value in each.rows(facts)
    ]


def pod_metrics(labels: tuple[str, ...], interfaces: Iterable[NetDevice]) -> list[pb.Metric]:
    """The metrics of a pod's network."""
    return [
        pb.Metric(
            name=name,
            metric_type=pb.COUNTER,
            label_values=(*labels, interface.name),
            value=pb.UInt64Value(value=get(interface)),
        )
        for interface in interfaces
        for name, _, get in _NETWORK
    ]


def _seconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _NS
