"""Composition of the stage control: pod workers, sync loop and housekeeping."""

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.adapters import DesiredPods
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping
from pykubelet.kubelet.control.sync.sync_interfaces import LoopDeps, NodeRereader
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.control.workers.worker_interfaces import WorkerDeps
from pykubelet.kubelet.desired.admission import Admission
from pykubelet.kubelet.desired.sources import PodMux
from pykubelet.kubelet.report.status import StatusManager


def build_workers(
    *, actuators: Actuators, observers: Observers, statuses: StatusManager, recorders: Recorders
) -> PodWorkers:
    """Build the pod workers."""
    return PodWorkers(
        WorkerDeps(
            runtime=actuators.runtime,
            resources=actuators.pod_resources,
            probes=observers.probes,
            status=statuses,
            conditions=observers.health,
            journal=recorders.journal,
            telemetry=recorders.telemetry(),
            watch_closely=observers.pleg.poke,
        )
    )


class LoopPartsDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `build_loop`."""

    desired: DesiredPods
    mux: PodMux
    workers: PodWorkers
    admission: Admission
    actuators: Actuators
    node: NodeRereader | None
    """None without an API server."""
    queue: EventQueue
    recorders: Recorders


class LoopParts(Struct, frozen=True, kw_only=True):
    """The sync loop, and the housekeeping that uses the same components."""

    loop: SyncLoop
    housekeeping: Housekeeping


class NoNodeObject:
    """A machine without an API server: its labels come from its configuration, so they are never outdated."""

    def request(self) -> None:
        """Return None: there is nothing to read."""


def build_loop(given: LoopPartsDeps) -> LoopParts:
    """Build the sync loop and housekeeping."""
    deps = LoopDeps(
        pods=given.desired,
        workers=given.workers,
        node_pods=given.actuators.pod_resources,
        garbage=given.actuators.runtime,
        admission=given.admission,
        node=given.node if given.node is not None else NoNodeObject(),
        journal=given.recorders.journal,
        telemetry=given.recorders.telemetry(),
    )
    return LoopParts(
        loop=SyncLoop(deps, given.queue),
        housekeeping=Housekeeping(deps, given.mux.all_ready),
    )
