"""Composition of the rest of the stage report: the statuses of pods, and the pods as the servers show them."""

from functools import partial

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.adapters import ResizeStates
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.desired.pods import PodManager, current_mirror
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.serve.local_socket import PodsView
from pykubelet.kubelet.types.resources.resize import PendingResizes


class Reports(Struct, frozen=True, kw_only=True):
    """The statuses of pods."""

    statuses: StatusManager
    view: PodsView


def build_reports(*, actuators: Actuators, pods: PodManager, pending: PendingResizes, recorders: Recorders) -> Reports:
    """Build the status manager and its view."""
    resizes = ResizeStates(pending, actuators.runtime.allocations)
    statuses = StatusManager(
        clock=recorders.clock,
        node=actuators.node,
        resizes=resizes,
        starts=recorders.starts,
        mirror_of=partial(current_mirror, pods),
    )
    statuses.subscribe(recorders.metrics.status_changed)
    statuses.subscribe(recorders.history.status_changed)
    return Reports(statuses=statuses, view=PodsView(statuses=statuses, desired=pods.pods, clock=recorders.clock))
