"""What cgroups, network interfaces and the machine were read to use, in full: what /metrics/cadvisor shows.

Read by ``observe/stats``, rendered by ``report/metrics``. Counters since the cgroup exists; times in nanoseconds where
the name says so, sizes in bytes; None: the kernel does not tell.
"""

from dataclasses import dataclass

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.stats import PsiStats


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUsage:
    """CPU time and the limits on it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUsage:
    """Memory and the limits on it; a limit of None is none."""

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
    """Of swap alone."""
    reservation: int | None = None
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceIo:
    """What went through one block device."""

    device: str
    """Path, or ``major:minor`` where it has none."""
    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0
    writes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """What runs in a cgroup and below."""

    processes: int
    threads: int | None = None
    threads_max: int | None = None
    file_descriptors: int = 0
    sockets: int = 0
    open_files_limit: int | None = None
    """Soft limit of the first process."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Pressure stall information, of version 2."""

    cpu: PsiStats | None = None
    memory: PsiStats | None = None
    io: PsiStats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupUsage:
    """One cgroup at one moment."""

    path: str
    """Below the root of the hierarchy; ``/`` is the machine."""
    at: Seconds
    """Unix time of the reading."""
    created: Seconds = 0.0
    cpu: CpuUsage | None = None
    memory: MemoryUsage | None = None
    threads: int | None = None
    pressure: Pressure = Pressure()
    io: tuple[DeviceIo, ...] = ()
    processes: Processes | None = None


@dataclass(frozen=True, slots=True)
class Interface:
    """Counters of a network interface."""

    name: str
    rx_bytes: int = 0
    rx_packets: int = 0
    rx_errors: int = 0
    rx_dropped: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    tx_dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    """A file system, or what a container takes of one."""

    device: str
    used: int
    capacity: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A cgroup with whose it is; what is not of a pod or a container has empty names."""

    usage: CgroupUsage
    namespace: str = ""
    pod: str = ""
    container: str = ""
    container_id: str = ""
    image: str = ""
    started: Seconds = 0.0
    network: tuple[Interface, ...] = ()
    filesystems: tuple[Filesystem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
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


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything, for one scrape."""

    machine: Machine
    readings: tuple[Reading, ...]
