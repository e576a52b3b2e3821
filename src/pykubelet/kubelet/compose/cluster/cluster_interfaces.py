"""What the builder of node mode takes, without the imports of node mode itself."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.compose.node.node_status import NodeStatusDeps
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import PodMux
from pykubelet.kubelet.report.status import StatusManager

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts


class ClusterDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of node mode on the other stages."""

    pods: PodManager
    mux: PodMux
    statuses: StatusManager
    status: NodeStatusDeps
    """What the Node object reports."""
    csi: "CsiParts | None"
    runtime_recovered: Callbacks[[]]
    node_read: Callable[[int], None]
    """Called when the Node object was read again for admission, with the number of the request."""
    shutdown_changed: Callbacks[[]]
    """A shutdown of the machine has begun or was cancelled."""
