"""CPU and memory of a container, as numbers."""

from dataclasses import dataclass

from pykubelet.base.units import Bytes, MilliCPU


@dataclass(frozen=True, slots=True)
class Size:
    """CPU and memory of a container; zero: not set. Limits are the effective ones, those of the pod level included."""

    cpu_request: MilliCPU = MilliCPU(0)
    cpu_limit: MilliCPU = MilliCPU(0)
    memory_request: Bytes = Bytes(0)
    memory_limit: Bytes = Bytes(0)
