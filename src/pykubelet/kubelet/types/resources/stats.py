"""Resource usage of the node, its pods and containers: the objects of the Summary API (``stats/v1alpha1``).

Measured by ``observe/stats``; shown by the servers of ``report`` and by ``top``. Values that could not be measured are
None and are omitted in JSON. Sizes are in bytes, CPU time in nanoseconds, CPU usage in billionths of a core.
"""

from msgspec import field

from pykubelet.models.scalars import KubeStruct, Time


class PsiData(KubeStruct, frozen=True):
    """A line of a pressure file: total stall time in microseconds, and percentages over windows of 10, 60, 300 s."""

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
    """Swap usage."""

    time: Time
    swap_available_bytes: int | None = None
    swap_usage_bytes: int | None = None


class InterfaceStats(KubeStruct, frozen=True, kw_only=True):
    """Counters of a network interface since it came up."""

    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None


class NetworkStats(KubeStruct, frozen=True, kw_only=True):
    """Counters of the default network interface and of all interfaces."""

    time: Time
    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class FsStats(KubeStruct, frozen=True, kw_only=True):
    """Usage of a file system, or of a part of one."""

    time: Time
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class PvcReference(KubeStruct, frozen=True, kw_only=True):
    """The PersistentVolumeClaim of a volume."""

    name: str
    namespace: str


class VolumeStats(KubeStruct, frozen=True, kw_only=True):
    """Usage of a mounted volume."""

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
    """Usage of a container, or of a daemon of the node."""

    name: str
    start_time: Time | None = None
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None
    swap: SwapStats | None = None


class PodReference(KubeStruct, frozen=True, kw_only=True):
    """Reference to a pod."""

    name: str
    namespace: str
    uid: str


class ProcessStats(KubeStruct, frozen=True, kw_only=True):
    """Number of processes of a pod."""

    process_count: int | None = field(default=None, name="process_count")


class PodStats(KubeStruct, frozen=True, kw_only=True):
    """Usage of a running pod."""

    pod_ref: PodReference
    start_time: Time | None = None
    containers: tuple[ContainerStats, ...]
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    io: IoStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeStats, ...] = ()
    ephemeral_storage: FsStats | None = field(default=None, name="ephemeral-storage")
    """Sum of the writable layers, the logs and the emptyDirs on disk."""
    process_stats: ProcessStats | None = field(default=None, name="process_stats")
    swap: SwapStats | None = None


class RuntimeStats(KubeStruct, frozen=True, kw_only=True):
    """The runtime's file systems for images and writable layers."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class RlimitStats(KubeStruct, frozen=True, kw_only=True):
    """Number of processes and threads of the node, and its limit."""

    time: Time
    max_pid: int | None = field(default=None, name="maxpid")
    running: int | None = field(default=None, name="curproc")


class NodeStats(KubeStruct, frozen=True, kw_only=True):
    """Usage of the node as a whole."""

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
    """The response of ``/stats/summary``."""

    node: NodeStats
    pods: tuple[PodStats, ...]
