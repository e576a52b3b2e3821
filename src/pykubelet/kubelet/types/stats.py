"""What the node, its pods and their containers use: the Summary API (``stats/v1alpha1``), field by field.

Measured by ``observe/stats``; shown by the servers of ``report`` and by ``top``. What could not be measured is None
and is left out on the wire. Sizes are in bytes, CPU time in nanoseconds, CPU usage in billionths of a core.
"""

from msgspec import field

from pykubelet.models.scalars import KubeStruct, Time


class PsiData(KubeStruct, frozen=True):
    """One line of a pressure file: microseconds stalled, and percentages over windows of seconds."""

    total: int
    avg10: float
    avg60: float
    avg300: float


class PsiStats(KubeStruct, frozen=True, kw_only=True):
    """Pressure stall information (docs.kernel.org, "PSI")."""

    full: PsiData
    some: PsiData


class CpuStats(KubeStruct, frozen=True, kw_only=True):
    """CPU time and usage."""

    time: Time
    usage_nano_cores: int | None = None
    usage_core_nano_seconds: int | None = None
    psi: PsiStats | None = None


class MemoryStats(KubeStruct, frozen=True, kw_only=True):
    """Memory; the working set is usage without inactive file pages."""

    time: Time
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    psi: PsiStats | None = None


class IoStats(KubeStruct, frozen=True, kw_only=True):
    """Pressure on the block devices."""

    time: Time
    psi: PsiStats | None = None


class SwapStats(KubeStruct, frozen=True, kw_only=True):
    """Swap."""

    time: Time
    swap_available_bytes: int | None = None
    swap_usage_bytes: int | None = None


class InterfaceStats(KubeStruct, frozen=True, kw_only=True):
    """Counters of a network interface since it is up."""

    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None


class NetworkStats(KubeStruct, frozen=True, kw_only=True):
    """The default interface's counters, and those of all."""

    time: Time
    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class FsStats(KubeStruct, frozen=True, kw_only=True):
    """A file system, or the part of one that something takes."""

    time: Time
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class PvcReference(KubeStruct, frozen=True, kw_only=True):
    """The claim that a volume comes from."""

    name: str
    namespace: str


class VolumeStats(KubeStruct, frozen=True, kw_only=True):
    """A mounted volume."""

    time: Time
    name: str
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None
    pvc_ref: PvcReference | None = None


class ContainerStats(KubeStruct, frozen=True, kw_only=True):
    """A container, or a daemon of the node."""

    name: str
    start_time: Time | None = None
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None
    swap: SwapStats | None = None


class PodReference(KubeStruct, frozen=True, kw_only=True):
    """Which pod."""

    name: str
    namespace: str
    uid: str


class ProcessStats(KubeStruct, frozen=True, kw_only=True):
    """Processes of a pod."""

    process_count: int | None = field(default=None, name="process_count")


class PodStats(KubeStruct, frozen=True, kw_only=True):
    """A running pod."""

    pod_ref: PodReference
    start_time: Time | None = None
    containers: tuple[ContainerStats, ...]
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeStats, ...] = ()
    ephemeral_storage: FsStats | None = field(default=None, name="ephemeral-storage")
    """The writable layers, the logs and the emptyDirs on disk."""
    process_stats: ProcessStats | None = field(default=None, name="process_stats")
    swap: SwapStats | None = None


class RuntimeStats(KubeStruct, frozen=True, kw_only=True):
    """Where the runtime keeps images and writable layers."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class RlimitStats(KubeStruct, frozen=True, kw_only=True):
    """Processes and threads: how many there may be, and are."""

    time: Time
    max_pid: int | None = field(default=None, name="maxpid")
    running: int | None = field(default=None, name="curproc")


class NodeStats(KubeStruct, frozen=True, kw_only=True):
    """The node as a whole."""

    node_name: str
    system_containers: tuple[ContainerStats, ...] = ()
    """``kubelet``, ``runtime`` and ``pods``."""
    start_time: Time | None = None
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    network: NetworkStats | None = None
    fs: FsStats | None = None
    runtime: RuntimeStats | None = None
    rlimit: RlimitStats | None = None
    swap: SwapStats | None = None


class Summary(KubeStruct, frozen=True, kw_only=True):
    """The answer of ``/stats/summary``."""

    node: NodeStats
    pods: tuple[PodStats, ...]
