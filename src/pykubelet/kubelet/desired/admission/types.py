"""The node, and what pods ask of it, as admission sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podresources import Amounts
from pykubelet.kubelet.types.qos import QosClass
from pykubelet.models.core_v1 import Taint


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What pods are measured against."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts = field(default_factory=Amounts)
    max_pods: int = 110
    app_armor: bool = False
    """The kernel enforces AppArmor profiles."""
    conditions: tuple[str, ...] = ()
    """What the node runs short of: ``MemoryPressure``, ``DiskPressure``, ``PIDPressure``."""
    strict_groups: bool | None = None
    """The runtime knows the supplemental groups policy Strict; None while it has not been asked."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes."""

    ip: str
    """Empty or 0.0.0.0: on all addresses."""
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What one pod takes of the node; reckoned once, since it is compared with every pod that comes."""

    uid: PodUID
    requests: Amounts
    ports: tuple[HostPort, ...]
    qos: QosClass
    critical: bool
    priority: int | None
