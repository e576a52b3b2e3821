"""Resource usage of cgroups, network interfaces and the machine in full, as /metrics/cadvisor shows it.

Read by ``observe/stats``, rendered by ``report/metrics``. Counters begin with the creation of the cgroup; times are in
nanoseconds where the name says so, sizes in bytes; None: the kernel does not report it.
"""

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.resources.stats import PsiStats
from pykubelet.linux.procparse import NetDevice


class CpuUsage(Struct, frozen=True, kw_only=True):
    """CPU time and its limits."""

    total_ns: int
    user_ns: int | None = None
    system_ns: int | None = None
    shares: int | None = None
    """Weight on the scale of cgroup v1."""
    quota_us: int | None = None
    """None: no limit."""
    period_us: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_ns: int | None = None


class MemoryUsage(Struct, frozen=True, kw_only=True):
    """Memory usage and its limits; a limit of None: unlimited."""

    usage: int
    working_set: int
    rss: int
    cache: int = 0
    mapped_file: int = 0
    active_file: int = 0
    inactive_file: int = 0
    kernel: int | None = None
    swap: int | None = None
    page_faults: int = 0
    major_page_faults: int = 0
    max_usage: int | None = None
    failures: int | None = None
    limit: int | None = None
    swap_limit: int | None = None
    """Limit of swap alone, without memory."""
    reservation: int | None = None
    oom_kills: int | None = None


class DeviceIo(Struct, frozen=True):
    """I/O of a block device."""

    device: str
    """Path, or ``major:minor`` where it has none."""
    number: str = ""
    """``major:minor``."""
    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0


class DiskActivity(Struct, frozen=True, kw_only=True):
    """Counters of a block device since the machine's start (/proc/diskstats)."""

    reads_merged: int
    sectors_read: int
    read_ms: int
    writes_merged: int
    sectors_written: int
    write_ms: int
    in_progress: int
    """Requests in progress now."""
    io_ms: int
    weighted_io_ms: int


class Processes(Struct, frozen=True, kw_only=True):
    """Processes in a cgroup and below."""

    processes: int
    threads: int | None = None
    threads_max: int | None = None
    file_descriptors: int = 0
    sockets: int = 0
    open_files_limit: int | None = None
    """Soft limit of the first process."""


class Pressure(Struct, frozen=True):
    """Pressure stall information, which only cgroup v2 has."""

    cpu: PsiStats | None = None
    memory: PsiStats | None = None
    io: PsiStats | None = None


class CgroupUsage(Struct, frozen=True, kw_only=True):
    """Usage of a cgroup at one moment."""

    path: str
    """Path below the root of the hierarchy; ``/`` is the machine."""
    at: Seconds
    """Unix time of the reading."""
    created: Seconds = 0.0
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    threads: int | None = None
    pressure: Pressure = Pressure()
    io: tuple[DeviceIo, ...] = ()
    processes: Processes | None = None


class Filesystem(Struct, frozen=True, kw_only=True):
    """Usage of a file system, by all or by one container."""

    device: str
    used: int
    capacity: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    disk: DiskActivity | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """The usage of a cgroup with the pod and the container that own it; names are empty where there is no owner."""

    usage: CgroupUsage
    namespace: str = ""
    pod: str = ""
    container: str = ""
    container_id: str = ""
    image: str = ""
    started: Seconds = 0.0
    network: tuple[NetDevice, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()


class MachineFacts(Struct, frozen=True, kw_only=True):
    """The machine, for the series ``machine_*``."""

    machine_id: str
    system_uuid: str
    boot_id: str
    cores: int
    physical_cores: int
    sockets: int
    memory: int
    swap: int
    kernel: str
    os_image: str


class Readings(Struct, frozen=True):
    """All readings for one scrape."""

    machine: MachineFacts
    readings: tuple[Reading, ...]
