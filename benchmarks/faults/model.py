"""Subjects, tries and results: the terms of the benchmark. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.figures import percentile


class Subject(StrEnum):
    """The node under test: an agent and a container runtime."""

    OURS = "pykubelet"
    """This project's agent and runtime server."""
    CONTAINERD = "pykubelet on containerd"
    GO = "Go kubelet on containerd"

    @property
    def collects_later(self) -> bool:
        """Whether what has ended of a removed pod stays until a garbage collection, once a minute."""
        return self is Subject.GO


class Restarts(StrEnum):
    """The containers that a fault itself ends, whose restart does not count."""

    NONE = "none"
    VICTIM = "victim"
    """The containers of the victim."""
    ALL = "all"


class Group(StrEnum):
    """Chapters of the report."""

    DAEMONS = "Daemons and monitors end, hang or run short"
    DISKS = "Disks"
    PARTS = "Volumes, registries, network plugins, the OCI runtime"
    RECORDS = "Damaged records"
    API = "The API server"
    MACHINE = "Clock and reboot"
    HOSTILE = "Hostile containers and clients"


@dataclass(slots=True)
class TryResult:
    """The result of one try."""

    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Daemons that ended though the fault did not kill them."""
    recovery: float | None = None
    """Seconds to recover; None if the desired state was not reached."""
    seconds: float = 0.0
    """Duration of the whole try."""


@dataclass(slots=True)
class Result:
    """All tries of a fault on one subject."""

    fault: str
    subject: Subject
    tries: list[TryResult] = field(default_factory=list)
    leaked: Counter[str] = field(default_factory=Counter)
    """Leaked resources by kind, counted when the pods of all tries are gone."""
    leaks: list[str] = field(default_factory=list)
    """Descriptions of the leaked resources."""

    def count(self, what: str) -> int:
        """Number of ``lost``, ``duplicated``, ``restarted`` or ``ended``, over all tries."""
        return sum(len(getattr(each, what)) for each in self.tries)

    @property
    def recoveries(self) -> list[float]:
        return [each.recovery for each in self.tries if each.recovery is not None]

    @property
    def p50(self) -> float | None:
        """Median of the seconds to recover."""
        return percentile(self.recoveries, 0.50) if self.recoveries else None

    @property
    def worst(self) -> float | None:
        """Maximum of the seconds to recover."""
        return max(self.recoveries, default=None)

    @property
    def failed(self) -> bool:
        """Whether the node lost, duplicated, restarted or leaked anything."""
        return bool(self.leaked) or any(self.count(what) for what in ("lost", "duplicated", "restarted"))
