"""Composition of the stage control: pod workers, sync loop and housekeeping."""

from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.adapters import DesiredPods
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.compose.report import Reports
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping
from pykubelet.kubelet.control.sync.sync_interfaces import HousekeepingDeps, LoopDeps
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.worker_interfaces import WorkerDeps
from pykubelet.kubelet.desired.admission import Admission

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.build import Cluster


class Control(Struct, frozen=True, kw_only=True):
    """The workers, the sync loop that calls them, and the housekeeping that uses the same components."""

    workers: PodWorkers
    loop: SyncLoop
    housekeeping: Housekeeping


class NoNodeObject:
    """A machine without an API server: its labels come from its configuration, so they are never outdated."""

    def request(self) -> None:
        """Return None: there is nothing to read."""


def build_control(
    foundation: Foundation,
    *,
    actuators: Actuators,
    reports: Reports,
    observers: Observers,
    admission: Admission,
    cluster: "Cluster | None",
) -> Control:
    """Build the stage. ``cluster`` is None in standalone mode."""
    recorders = foundation.recorders
    workers = PodWorkers(
        WorkerDeps(
            runtime=actuators.runtime,
            resources=actuators.pod_resources,
            probes=observers.probes.manager,
            status=reports.statuses,
            conditions=observers.health,
            journal=recorders.journal,
            telemetry=recorders.telemetry(recorders.metrics.pods),
            watch_closely=observers.pleg.poke,
        ),
        foundation.tables.workers,
    )
    pods = DesiredPods(
        pods=foundation.tables.pods,
        view=reports.view,
        follower=cluster.pods if cluster is not None else None,
        changed=recorders.metrics.starts.pod_changed,
    )
    loop = LoopDeps(
        pods=pods,
        workers=workers,
        admission=admission,
        node=cluster.rereader if cluster is not None else NoNodeObject(),
        journal=recorders.journal,
        telemetry=recorders.telemetry(recorders.metrics.pods),
    )
    housekeeping = HousekeepingDeps(
        workers=workers,
        wanted=foundation.tables.mux.uids,
        node_pods=actuators.pod_resources,
        garbage=actuators.runtime,
        telemetry=recorders.telemetry(recorders.metrics.pods),
    )
    return Control(
        workers=workers,
        loop=SyncLoop(loop, foundation.tables.queue),
        housekeeping=Housekeeping(housekeeping, foundation.tables.mux.all_ready),
    )
