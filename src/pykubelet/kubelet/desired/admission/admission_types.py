"""Values of admission: the node, and what pods need of it."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.pod_requests import Amounts
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.models.core_v1 import Taint


class NodeProperties(Struct, frozen=True):
    """Properties of the node that admission checks."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts = field(default_factory=Amounts)
    max_pods: int = 110
    app_armor: bool = False
    """Whether the kernel enforces AppArmor profiles."""
    conditions: tuple[str, ...] = ()
    """Pressure conditions: ``MemoryPressure``, ``DiskPressure``, ``PIDPressure``."""
    strict_groups: bool | None = None
    """Whether the runtime supports the supplemental groups policy Strict; None before its first reply."""
    shutting_down: bool = False
    """Whether the machine is shutting down."""


class HostPort(Struct, frozen=True):
    """A host port of a pod."""

    ip: str
    """Empty or 0.0.0.0: on all addresses."""
    protocol: str
    port: int


class Needs(Struct, frozen=True):
    """A pod's requirements on the node; computed once, since they are compared with every new pod."""

    uid: PodUID
    requests: Amounts
    ports: tuple[HostPort, ...]
    qos: QosClass
    critical: bool
    priority: int | None
