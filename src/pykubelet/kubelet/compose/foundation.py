"""What is built before the stages, since several of them share it: pods, the loop's queue, recorders, access."""

from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.http.http_get import HttpGetter
from pykubelet.kubelet.compose.cluster.entry import open_access
from pykubelet.kubelet.compose.desired import Manifests, build_manifests
from pykubelet.kubelet.compose.recorders import Recorders, build_recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.live_settings import LiveSettings
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.types.resources.resize import PendingResizes

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess


class Foundation(Struct, frozen=True, kw_only=True):
    """What the stages share."""

    settings: Settings
    """The settings at the start, for what a reload does not change."""
    live: LiveSettings
    """The settings in force."""
    pods: PodManager
    """The desired pods."""
    queue: EventQueue
    """The sync loop's queue, to which all stages post."""
    pending: PendingResizes
    http: HttpGetter
    """The client of probes and lifecycle hooks."""
    recorders: Recorders
    manifests: Manifests
    access: "ApiAccess | None"
    """None: standalone mode."""


def build_foundation(settings: Settings, clock: Clock) -> Foundation:
    """Build it. Raises Invalid for a bad kubeconfig."""
    pods, queue = PodManager(), EventQueue(clock.monotonic)
    recorders = build_recorders(settings, pods, clock)
    manifests = build_manifests(recorders.events)
    return Foundation(
        settings=settings,
        live=LiveSettings(settings),
        pods=pods,
        queue=queue,
        pending=PendingResizes(),
        http=HttpGetter(),
        recorders=recorders,
        manifests=manifests,
        access=open_access(settings, local=manifests.objects, queue=queue, recorders=recorders),
    )
