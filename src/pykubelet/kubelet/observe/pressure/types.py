"""Values of pressure and eviction. Names are the reference's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pykubelet.base.units import Seconds


class Signal(StrEnum):
    """What is watched, by its name in ``evictionHard`` and ``evictionSoft``."""

    MEMORY = "memory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    PIDS = "pid.available"


class Condition(StrEnum):
    """The node conditions."""

    MEMORY = "MemoryPressure"
    DISK = "DiskPressure"
    PIDS = "PIDPressure"


class Resource(StrEnum):
    """What is short, in the words of events and messages."""

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
    """A quantity of a threshold: so many units, or a share of the capacity."""

    value: int = 0
    share: float | None = None
    """From 0 to 1; then ``value`` does not count."""

    def of(self, capacity: int) -> int:
        """In units."""
        return self.value if self.share is None else int(capacity * self.share)


@dataclass(frozen=True, slots=True)
class Threshold:
    """When a signal falls below ``least`` (for ``grace`` seconds, if it is a soft one), something has to be done."""

    signal: Signal
    least: Amount
    grace: Seconds = 0.0
    reclaim: Amount = Amount()
    """How much more than ``least`` has to be there before it is over."""

    @property
    def hard(self) -> bool:
        return self.grace == 0


@dataclass(frozen=True, slots=True)
class Observation:
    """A signal now."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class PressureConfig:
    """Fields of KubeletConfiguration."""

    thresholds: tuple[Threshold, ...]
    transition: Seconds = 300.0
    """How long a condition stays after it was last seen."""
    max_grace: int = 0
    """Longest grace of soft evictions, in seconds."""
    local_storage: bool = True
    """Whether pods are held to their limits of local storage."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What a container uses, in bytes; None is not known."""

    memory: int | None = None
    disk: int | None = None
    """Writable layer and logs."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """What a pod uses."""

    memory: int = 0
    disk: int = 0
    """Writable layers, logs and emptyDirs on disk."""
    inodes: int = 0
    processes: int = 0
    containers: Mapping[str, ContainerUse] = field(default_factory=dict)
    volumes: Mapping[str, int] = field(default_factory=dict)
    """Bytes in each volume that is known."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that has to go."""

    message: str
    signal: str
    """For the metrics."""
    grace: int
    """Seconds."""
