"""Composition of the stage report: the statuses of pods, and the pods as the servers show them.

What the other stages report to is part of the foundation (``recorders.py``), and what reports to the API server is
part of node mode (``cluster/build.py``).
"""

from functools import partial

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.adapters import ResizeStates
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.desired.pods import current_mirror
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.serve.local_api import PodsView


class Reports(Struct, frozen=True, kw_only=True):
    """The statuses of pods."""

    statuses: StatusManager
    view: PodsView


def build_report(foundation: Foundation, *, actuators: Actuators) -> Reports:
    """Build the stage."""
    recorders = foundation.recorders
    statuses = StatusManager(
        clock=recorders.clock,
        node=actuators.node,
        resizes=ResizeStates(foundation.tables.pending, actuators.runtime.allocations),
        starts=recorders.starts,
        mirror_of=partial(current_mirror, foundation.tables.pods),
        subscribers=(recorders.metrics.starts.status_changed, recorders.history.status_changed),
    )
    return Reports(
        statuses=statuses, view=PodsView(statuses=statuses, desired=foundation.tables.pods.pods, clock=recorders.clock)
    )
