"""Values and the contract of the cgroup drivers."""

from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.units import Bytes

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class CgroupResources:
    """Settings to write; None (or an empty tuple) leaves one as it is, `UNLIMITED` lifts a limit.

    CPU weight is given as cgroup v1 shares (2…262144) on both versions, as CRI does.
    """

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    """CPU time per period; needs `cpu_period_us` on version 2 only to change the period."""
    cpu_period_us: int | None = None
    memory_max: Bytes | None = None
    memory_high: Bytes | None = None
    """Version 2 only, as are `memory_low` and `memory_min`; version 1 has nothing like them."""
    memory_low: Bytes | None = None
    memory_min: Bytes | None = None
    pids_max: int | None = None
    cpuset_cpus: str | None = None
    """A list as the kernel takes it: `0-3,7`."""
    cpuset_mems: str | None = None
    hugepages: tuple[tuple[str, Bytes], ...] = ()
    """Limit by page size (`2MB`); sizes that the kernel has no controller for are skipped."""
    unified: tuple[tuple[str, str], ...] = ()
    """Files of a version 2 cgroup and their content; version 1 ignores them."""


@dataclass(frozen=True, slots=True)
class CgroupStats:
    """What a cgroup and all below it use; None where the controller is missing."""

    cpu_usage_ns: int | None = None
    memory_usage: Bytes | None = None
    """With page cache."""
    memory_working_set: Bytes | None = None
    """Usage without the file cache that could be dropped at once: what eviction looks at."""
    memory_rss: Bytes | None = None
    swap: Bytes | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    pids: int | None = None


class CgroupDriver(Protocol):
    """Cgroups by their path below the root of the hierarchy (`/kubepods/burstable/pod1234`).

    Everything blocks. Errors: NotFound, Permanent (read-only, not permitted), Transient (busy), Invalid.
    """

    @property
    def version(self) -> int:
        """1 or 2."""
        ...

    def create(self, path: str, resources: CgroupResources) -> None:
        """Make the cgroup and its parents where missing, and apply the settings to it."""
        ...

    def update(self, path: str, resources: CgroupResources) -> None:
        """Apply settings to an existing cgroup. NotFound when there is none."""
        ...

    def delete(self, path: str) -> None:
        """Kill what runs in the cgroup and below, and remove it all; done when there is none.

        Raises Transient when something does not go away within a few seconds.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether the cgroup is there, for every controller that this driver sets."""
        ...

    def children(self, path: str) -> frozenset[str]:
        """Names of the cgroups directly below, in any hierarchy; empty when there is no such cgroup."""
        ...

    def stats(self, path: str) -> CgroupStats:
        """Read the usage. NotFound when there is no such cgroup."""
        ...

    def limits(self, path: str) -> CgroupResources:
        """CPU and memory settings in force, `UNLIMITED` for no limit; None where the controller is missing.

        Raises NotFound when there is no such cgroup.
        """
        ...

    def procs(self, path: str) -> frozenset[int]:
        """Process ids in the cgroup and below, in any hierarchy."""
        ...
