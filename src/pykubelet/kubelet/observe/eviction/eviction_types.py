"""Values of node pressure and eviction. Names are those of the Go kubelet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pykubelet.base.units import Seconds


class Signal(StrEnum):
    """Eviction signals, by their names in ``evictionHard`` and ``evictionSoft``."""

    MEMORY = "memory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    PIDS = "pid.available"


class Condition(StrEnum):
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


CONDITION_OF: Final[Mapping[Signal, Condition]] = {
    Signal.MEMORY: Condition.MEMORY,
    Signal.NODEFS: Condition.DISK,
    Signal.NODEFS_INODES: Condition.DISK,
    Signal.IMAGEFS: Condition.DISK,
    Signal.IMAGEFS_INODES: Condition.DISK,
    Signal.PIDS: Condition.PIDS,
}
RESOURCE_OF: Final[Mapping[Signal, Resource]] = {
    Signal.MEMORY: Resource.MEMORY,
    Signal.NODEFS: Resource.STORAGE,
    Signal.NODEFS_INODES: Resource.INODES,
    Signal.IMAGEFS: Resource.STORAGE,
    Signal.IMAGEFS_INODES: Resource.INODES,
    Signal.PIDS: Resource.PIDS,
}


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity of a threshold: a number of units, or a share of the capacity."""

    value: int = 0
    share: float | None = None
    """From 0 to 1; if set, ``value`` is ignored."""

    def of(self, capacity: int) -> int:
        """Return the amount in units."""
        return self.value if self.share is None else int(capacity * self.share)


@dataclass(frozen=True, slots=True)
class Threshold:
    """An eviction threshold: met when the signal is below ``least`` (soft ones: for ``grace`` seconds)."""

    signal: Signal
    least: Amount
    grace: Seconds = 0.0
    reclaim: Amount = Amount()
    """Minimum reclaim: the amount above ``least`` at which the threshold is no longer met."""

    @property
    def hard(self) -> bool:
        return self.grace == 0


@dataclass(frozen=True, slots=True)
class Observation:
    """Current value of a signal."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class EvictionConfig:
    """The fields of KubeletConfiguration about eviction."""

    thresholds: tuple[Threshold, ...]
    transition: Seconds = 300.0
    """Time that a condition stays after it last held."""
    max_grace: int = 0
    """Maximum grace period of soft evictions, in seconds."""
    local_storage: bool = True
    """Whether limits of local storage are enforced."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """Usage of a container in bytes; None: unknown."""

    memory: int | None = None
    disk: int | None = None
    """Writable layer and logs."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """Usage of a pod; memory and disk in bytes."""

    memory: int = 0
    disk: int = 0
    """Writable layers, logs and emptyDirs on disk."""
    inodes: int = 0
    processes: int = 0
    containers: Mapping[str, ContainerUse] = field(default_factory=dict)
    volumes: Mapping[str, int] = field(default_factory=dict)
    """Bytes used in each volume whose usage is known."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction of a pod."""

    message: str
    signal: str
    """Label of the metrics."""
    grace: int
    """Seconds."""
