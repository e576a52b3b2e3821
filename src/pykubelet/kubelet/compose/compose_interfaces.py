"""Values that the builders of node mode take, without the imports of node mode itself."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykubelet.base.callbacks import Callbacks
from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import PodMux
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.types.runtime import RuntimeConditions

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusDeps:
    """Dependencies of `NodeStatusReader`."""

    settings: Settings
    node: NodeFacts
    image_cri: CriClient
    conditions: Callable[[], RuntimeConditions]
    pleg_fault: Callable[[], str | None]
    pressure: Callable[[], AbstractSet[str]]
    """Returns the pressure conditions of the node."""
    volumes_in_use: Callable[[], tuple[str, ...]]
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeps:
    """Dependencies of node mode on the other stages."""

    pods: PodManager
    mux: PodMux
    statuses: StatusManager
    status: NodeStatusDeps
    """What the Node object reports."""
    csi: "CsiParts | None"
    runtime_recovered: Callbacks[[]]
