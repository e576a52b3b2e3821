"""Values of node pressure and eviction. Names are those of the Go kubelet."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from pykubelet.base.units import Seconds


class Signal(StrEnum):
    """Eviction signals, by their names in ``evictionHard`` and ``evictionSoft``."""

    MEMORY = "memory.available"
    ALLOCATABLE_MEMORY = "allocatableMemory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    CONTAINERFS = "containerfs.available"
    CONTAINERFS_INODES = "containerfs.inodesFree"
    PIDS = "pid.available"


class PressureCondition(StrEnum):
    """Node conditions of pressure."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PIDS = "PIDPressure"


class Resource(StrEnum):
    """Resources, as events and messages name them."""

    MEMORY = "memory"
    STORAGE = "ephemeral-storage"
    INODES = "inodes"
    PIDS = "pids"


class Part(StrEnum):
    """Kinds of storage that a pod uses on the node's file systems."""

    ROOTFS = "rootfs"
    """The writable layers of its containers."""
    LOGS = "logs"
    VOLUMES = "volumes"
    """Its local volumes."""


class Reclaim(StrEnum):
    """Kinds of space that can be reclaimed without an eviction."""

    CONTAINERS = "containers"
    IMAGES = "images"


class Disks(Struct, frozen=True):
    """The file systems of the node. By default there is one for everything."""

    own_images: bool = False
    """Images are on another file system than the agent's root directory."""
    own_containers: bool = False
    """Writable layers are on another file system than images."""


CONDITION_OF: Final[Mapping[Signal, PressureCondition]] = {
    Signal.MEMORY: PressureCondition.MEMORY,
    Signal.ALLOCATABLE_MEMORY: PressureCondition.MEMORY,
    Signal.NODEFS: PressureCondition.DISK,
    Signal.NODEFS_INODES: PressureCondition.DISK,
    Signal.IMAGEFS: PressureCondition.DISK,
    Signal.IMAGEFS_INODES: PressureCondition.DISK,
    Signal.CONTAINERFS: PressureCondition.DISK,
    Signal.CONTAINERFS_INODES: PressureCondition.DISK,
    Signal.PIDS: PressureCondition.PIDS,
}
RESOURCE_OF: Final[Mapping[Signal, Resource]] = {
    Signal.MEMORY: Resource.MEMORY,
    Signal.ALLOCATABLE_MEMORY: Resource.MEMORY,
    Signal.NODEFS: Resource.STORAGE,
    Signal.NODEFS_INODES: Resource.INODES,
    Signal.IMAGEFS: Resource.STORAGE,
    Signal.IMAGEFS_INODES: Resource.INODES,
    Signal.CONTAINERFS: Resource.STORAGE,
    Signal.CONTAINERFS_INODES: Resource.INODES,
    Signal.PIDS: Resource.PIDS,
}


class Amount(Struct, frozen=True):
    """A quantity of a threshold: a number of units, or a share of the capacity."""

    value: int = 0
    share: float | None = None
    """From 0 to 1; if set, ``value`` is ignored."""

    def of(self, capacity: int) -> int:
        """Return the amount in units."""
        return self.value if self.share is None else int(capacity * self.share)


class Threshold(Struct, frozen=True):
    """An eviction threshold: met when the signal is below ``least`` (soft ones: for ``grace`` seconds)."""

    signal: Signal
    least: Amount
    grace: Seconds = 0.0
    reclaim: Amount = Amount()
    """Minimum reclaim: the amount above ``least`` at which the threshold is no longer met."""

    @property
    def hard(self) -> bool:
        return self.grace == 0


class SignalObservation(Struct, frozen=True):
    """Current value of a signal."""

    available: int
    capacity: int


class EvictionConfig(Struct, frozen=True):
    """The fields of KubeletConfiguration about eviction."""

    thresholds: tuple[Threshold, ...]
    transition: Seconds = 300.0
    """Time that a condition stays after it last held."""
    max_grace: int = 0
    """Maximum grace period of soft evictions, in seconds."""
    local_storage: bool = True
    """Whether limits of local storage are enforced."""


class DiskUse(Struct, frozen=True):
    """Usage of a file system."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskUse") -> "DiskUse":
        return DiskUse(self.bytes + other.bytes, self.inodes + other.inodes)


class ContainerUse(Struct, frozen=True):
    """Usage of a container; memory in bytes; None: unknown."""

    memory: int | None = None
    rootfs: DiskUse | None = None
    logs: DiskUse | None = None


class PodUse(Struct, frozen=True):
    """Usage of a pod."""

    memory: int = 0
    """Bytes."""
    disk: int = 0
    """Bytes of writable layers, logs and emptyDirs on disk, as the limits of pods count them."""
    processes: int = 0
    containers: Mapping[str, ContainerUse] = field(default_factory=dict)
    volumes: Mapping[str, DiskUse] = field(default_factory=dict)
    """Usage of each volume whose usage is known."""


class Eviction(Struct, frozen=True):
    """An eviction of a pod."""

    message: str
    signal: str
    """Label of the metrics."""
    grace: int
    """Seconds."""
    disrupts: bool = True
    """Whether the pod ends for the node's sake: evictions for a limit of the pod's own are no disruptions."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the event, with upstream's keys."""
