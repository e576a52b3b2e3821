"""Node allocatable: the resources of the machine that pods may use. Pure.

Allocatable = capacity - kubeReserved - systemReserved - hard eviction threshold (Kubernetes docs, "Reserve Compute
Resources for System Daemons").
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.models import quantity
from pykubelet.models.scalars import Quantity

EVICTION_MEMORY_DEFAULT = "100Mi"
_MEMORY_SIGNAL = "memory.available"


@dataclass(frozen=True, slots=True)
class Reservations:
    """Reserved quantities by resource name, from the configuration."""

    kube: Mapping[str, str] = field(default_factory=dict)
    system: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)

    def milli_cpu(self) -> int:
        """Reserved CPU in millicores."""
        return sum(quantity.to_milli(r["cpu"]) for r in (self.kube, self.system) if "cpu" in r)

    def memory(self, capacity: int) -> int:
        """Reserved memory in bytes, with the eviction threshold, which may be a percentage of ``capacity``."""
        reserved = sum(quantity.to_value(r["memory"]) for r in (self.kube, self.system) if "memory" in r)
        return reserved + self._threshold(capacity)

    def _threshold(self, capacity: int) -> int:
        text = self.eviction_hard.get(_MEMORY_SIGNAL, EVICTION_MEMORY_DEFAULT)
        if not text.endswith("%"):
            return quantity.to_value(text)
        try:
            return int(capacity * float(text[:-1]) / 100)
        except ValueError as error:
            raise Invalid(f"evictionHard: {_MEMORY_SIGNAL}: {text!r} is not a percentage") from error


def allocatable(cpus: int, memory: int, reserved: Reservations) -> dict[str, Quantity]:
    """Allocatable ``cpu`` and ``memory`` of a machine with ``cpus`` CPUs and ``memory`` bytes."""
    milli = max(0, cpus * 1000 - reserved.milli_cpu())
    left = max(0, memory - reserved.memory(memory))
    return {"cpu": f"{milli}m" if milli % 1000 else str(milli // 1000), "memory": str(left)}


def root_limits(cpus: int, memory: int, reserved: Reservations) -> tuple[MilliCPU, Bytes | None]:
    """Limits of all pods together: CPU in millicores for the weight, memory in bytes (None: no limit).

    The memory limit is set only if memory is reserved, and includes the eviction threshold, as in the Go kubelet.
    """
    milli = MilliCPU(max(0, cpus * 1000 - reserved.milli_cpu()))
    kept = sum(quantity.to_value(r["memory"]) for r in (reserved.kube, reserved.system) if "memory" in r)
    return milli, Bytes(max(0, memory - kept)) if kept else None
