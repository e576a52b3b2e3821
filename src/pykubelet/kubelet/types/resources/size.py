"""CPU and memory of a container, as numbers."""

from msgspec import Struct

from pykubelet.base.units import Bytes, MilliCPU


class Size(Struct, frozen=True):
    """CPU and memory of a container; zero: not set. Limits are the effective ones, those of the pod level included."""

    cpu_request: MilliCPU = MilliCPU(0)
    cpu_limit: MilliCPU = MilliCPU(0)
    memory_request: Bytes = Bytes(0)
    memory_limit: Bytes = Bytes(0)
