"""Dependencies of the builder of node mode, without the imports of node mode itself."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.compose.node.node_status import NodeStatusReader
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
    facts: NodeFacts
    reader: NodeStatusReader
    """Reads what the Node object reports."""
    csi: "CsiParts | None"
    node_read: Callable[[int], None]
    """Called when the Node object was read again for admission, with the number of the request."""
    node_changed: tuple[Callbacks[[]], ...]
    """The events after which the Node object is reported at once."""
