"""The interface of the cgroup drivers and its values."""

from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Bytes

UNLIMITED = -1


class CgroupResources(Struct, frozen=True):
    """Settings of a cgroup to write; None (or an empty tuple) leaves one as it is, `UNLIMITED` removes a limit.

    CPU weight is given as cgroup v1 shares (2…262144) on both versions, as CRI does.
    """

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    """CPU time per period; needs `cpu_period_us` on version 2 only to change the period."""
    cpu_period_us: int | None = None
    memory_max: Bytes | None = None
    memory_high: Bytes | None = None
    """Version 2 only, as are `memory_low` and `memory_min`; version 1 has no equivalent."""
    memory_low: Bytes | None = None
    memory_min: Bytes | None = None
    pids_max: int | None = None
    cpuset_cpus: str | None = None
    """A list in the kernel's format: `0-3,7`."""
    cpuset_mems: str | None = None
    hugepages: tuple[tuple[str, Bytes], ...] = ()
    """Limit by page size (`2MB`); sizes that the kernel has no controller for are skipped."""
    unified: tuple[tuple[str, str], ...] = ()
    """Files of a version 2 cgroup and their content; version 1 ignores them."""


class Stall(Struct, frozen=True):
    """A line of a pressure file: total stall time, and percentages over windows of 10, 60 and 300 s."""

    total_us: int = 0
    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0


class Pressure(Struct, frozen=True):
    """Pressure stall information of one resource (docs.kernel.org, "PSI"): some processes wait, or all of them."""

    some: Stall = Stall()
    full: Stall = Stall()


class CgroupStats(Struct, frozen=True):
    """Resource usage of a cgroup and its descendants; None where the controller is missing."""

    cpu_usage_ns: int | None = None
    memory_usage: Bytes | None = None
    """Memory usage with page cache."""
    memory_working_set: Bytes | None = None
    """Usage without the inactive file cache, which could be dropped at once; eviction uses this figure."""
    memory_rss: Bytes | None = None
    swap: Bytes | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    pids: int | None = None
    cpu_pressure: Pressure | None = None
    """Pressure is None on version 1, and on kernels without PSI (``psi=0``)."""
    memory_pressure: Pressure | None = None
    io_pressure: Pressure | None = None


class CgroupDriver(Protocol):
    """Operations on cgroups, by their path below the root of the hierarchy (`/kubepods/burstable/pod1234`).

    All methods block. Errors: NotFound, Permanent (read-only, not permitted), Transient (busy), Invalid.
    """

    @property
    def version(self) -> int:
        """The cgroup version: 1 or 2."""
        ...

    def create(self, path: str, resources: CgroupResources) -> None:
        """Create the cgroup and its missing parents, and apply the settings to it."""
        ...

    def update(self, path: str, resources: CgroupResources) -> None:
        """Apply settings to an existing cgroup. Raises NotFound if it does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Kill all processes in the cgroup and its descendants, and remove them. Idempotent: no error if it is missing.

        Raises Transient if processes or cgroups remain after a few seconds.
        """
        ...

    def kill(self, path: str) -> None:
        """Kill all processes in the cgroup and its descendants. Idempotent: no error if it is missing.

        On version 1 they are thawed, as a frozen process does not even end after SIGKILL. A privileged container may
        freeze itself, again and again.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether the cgroup exists, for every controller that this driver sets."""
        ...

    def children(self, path: str) -> frozenset[str]:
        """The names of the direct child cgroups, in any hierarchy; empty if the cgroup does not exist."""
        ...

    def stats(self, path: str) -> CgroupStats:
        """Read the usage. Raises NotFound if the cgroup does not exist."""
        ...

    def limits(self, path: str) -> CgroupResources:
        """Read the present CPU and memory settings, `UNLIMITED` for no limit; None where the controller is missing.

        Raises NotFound if the cgroup does not exist.
        """
        ...

    def procs(self, path: str) -> frozenset[int]:
        """The pids in the cgroup and its descendants, for statistics: those of some thousands of cgroups at most."""
        ...
