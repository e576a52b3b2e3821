"""Builds one agent: calls the builders of the stages, and connects their results."""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.actuate.node.addresses import NodeAddresses
from pykubelet.kubelet.actuate.volumes import SWAPPED_VOLUMES, memory_volumes_may_swap
from pykubelet.kubelet.compose.adapters import DesiredPods, NodeCounter
from pykubelet.kubelet.compose.cluster.cluster_interfaces import ClusterDeps
from pykubelet.kubelet.compose.cluster.entry import cluster_builder
from pykubelet.kubelet.compose.control import LoopParts, LoopPartsDeps, build_loop
from pykubelet.kubelet.compose.desired import build_admission, post_changed_objects
from pykubelet.kubelet.compose.foundation import Foundation, build_foundation
from pykubelet.kubelet.compose.hung_calls import HungCalls
from pykubelet.kubelet.compose.kubelet_api import log_fault
from pykubelet.kubelet.compose.local_api.build import build_view
from pykubelet.kubelet.compose.node.admission_node import AdmissionNode
from pykubelet.kubelet.compose.node.node_status import NodeHealth, NodeStatusDeps, NodeStatusReader
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.compose.reload.check_settings import check_reload
from pykubelet.kubelet.compose.reload.live_parts import live_parts
from pykubelet.kubelet.compose.serve import ServeDeps, Servers, build_servers, first_fault, health_checks
from pykubelet.kubelet.compose.stages import Stages, build_stages
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import post_periodic_retries
from pykubelet.kubelet.desired.admission import Admission
from pykubelet.kubelet.reload.config_input import ConfigInput
from pykubelet.kubelet.reload.config_reloader import ConfigReloader
from pykubelet.kubelet.report.metrics import CountsCollector
from pykubelet.kubelet.serve.common.binding import Listen, bind
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.linux.memory_trim import trim_periodically
from pykubelet.models.core_v1 import Node

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.build import Cluster

Parts = dict[str, Coroutine[None, None, None]]


class Agent(Struct, frozen=True, kw_only=True):
    """One agent, ready to start."""

    recorders: Recorders
    actuators: Actuators
    observers: Observers
    admission: Admission
    servers: Servers
    fault: Callable[[], str | None]
    """Returns why the agent does not work and has to be started again, or None."""
    hung_calls: HungCalls
    """The listener for blocking calls that do not respond."""
    parts: Callable[[], Parts]
    """Returns the core tasks by name; each is to be run until the agent ends."""
    closers: tuple[Callable[[], Awaitable[None]], ...]
    """Close the connections; called in reverse order."""


def build_agent(settings: Settings, clock: Clock, given: ConfigInput | None = None, *, listen: Listen = bind) -> Agent:
    """Build all components of one agent. Nothing runs yet, and nothing is changed on the machine.

    ``given``: the files of the configuration; None: there are none, and it never changes. ``listen`` returns the
    servers' sockets.

    Raises PykubeletError for an invalid configuration.
    """
    ground = build_foundation(settings, clock)
    stages = build_stages(ground)
    addresses = NodeAddresses(settings, changed=stages.actuators.node.learn_own_ips, clock=clock)
    cluster = _build_cluster(ground, stages, addresses)
    registered = cluster.registered if cluster is not None else _never_registered
    admission_node = AdmissionNode(
        settings=ground.live.current,
        facts=stages.actuators.node,
        registered=registered,
        conditions=stages.eviction.conditions,
        shutting_down=stages.shutdown.under_way,
    )
    admission = build_admission(
        node=admission_node,
        workers=stages.workers,
        actuators=stages.actuators,
        pending=ground.pending,
        telemetry=ground.recorders.telemetry(),
    )
    others = cluster.parts if cluster is not None else partial(_standalone_tasks, addresses)
    control = _build_control(ground, stages, cluster=cluster, admission=admission)
    reloader = ConfigReloader(
        given=given or ConfigInput.fixed(settings.config),
        live=ground.live,
        parts=(*live_parts(stages), *(cluster.live if cluster is not None else ())),
        check=partial(check_reload, settings),
        telemetry=ground.recorders.telemetry().measured_by(ground.recorders.metrics.reloads),
    )
    view = build_view(
        ground,
        stages,
        registered=registered,
        reader=NodeStatusReader(_node_status(ground, stages, addresses)),
        admission_node=admission_node,
        configuration=reloader.view,
    )
    checks = health_checks(ground.live.current, control.loop, stages.observers)
    servers = build_servers(
        settings,
        ServeDeps(
            pods=stages.reports.view,
            node=view,
            cri=stages.clients.cri,
            checks=checks,
            usage=stages.usage,
            access=ground.access,
            recorders=ground.recorders,
            listen=listen,
        ),
    )
    _count_components(ground, stages)
    return Agent(
        recorders=ground.recorders,
        actuators=stages.actuators,
        observers=stages.observers,
        admission=admission,
        servers=servers,
        fault=partial(first_fault, (log_fault, checks["syncloop"])),
        hung_calls=HungCalls(ground.pods.by_uid, ground.recorders.events),
        parts=partial(_core_tasks, ground, stages, control=control, servers=servers, reloader=reloader, others=others),
        closers=_closers(ground, stages),
    )


def _node_status(ground: Foundation, stages: Stages, addresses: NodeAddresses) -> NodeStatusDeps:
    """Return what the Node object is made of."""
    csi = stages.actuators.csi
    return NodeStatusDeps(
        settings=ground.live.current,
        node=stages.actuators.node,
        image_cri=stages.clients.image_cri,
        addresses=addresses,
        health=NodeHealth(
            conditions=stages.observers.health.current,
            pleg_fault=stages.observers.pleg.healthy,
            shutdown_fault=stages.shutdown.fault,
        ),
        pressure=stages.eviction.conditions,
        volumes_in_use=csi.volumes.in_use if csi is not None else tuple,
        clock=ground.recorders.clock,
    )


def _build_cluster(ground: Foundation, stages: Stages, addresses: NodeAddresses) -> "Cluster | None":
    """Build node mode; None in standalone mode. Raises Invalid for labels that a node may not set itself."""
    if ground.access is None:
        return None
    deps = ClusterDeps(
        pods=ground.pods,
        mux=stages.sources.mux,
        statuses=stages.reports.statuses,
        status=_node_status(ground, stages, addresses),
        csi=stages.actuators.csi,
        runtime_recovered=stages.observers.runtime_recovered,
        node_read=ground.queue.post_node_read,
        shutdown_changed=stages.shutdown_changed,
    )
    return cluster_builder()(ground.access, ground.recorders, deps)


def _never_registered() -> Node | None:
    return None


def _build_control(ground: Foundation, stages: Stages, *, cluster: "Cluster | None", admission: Admission) -> LoopParts:
    """Build the sync loop and housekeeping; changed objects are posted to the loop."""
    control = build_loop(
        LoopPartsDeps(
            desired=DesiredPods(
                pods=ground.pods,
                view=stages.reports.view,
                follower=cluster.pods if cluster is not None else None,
                changed=ground.recorders.metrics.pod_changed,
            ),
            mux=stages.sources.mux,
            workers=stages.workers,
            admission=admission,
            actuators=stages.actuators,
            node=cluster.rereader if cluster is not None else None,
            queue=ground.queue,
            recorders=ground.recorders,
        )
    )
    objects = ground.access.objects if ground.access is not None else ground.manifests.objects
    post_changed_objects(objects, ground.pods, ground.queue)
    return control


def _count_components(ground: Foundation, stages: Stages) -> None:
    """Register the numbers that are counted when the metrics are read."""
    actuators, observers = stages.actuators, stages.observers
    counter = NodeCounter(
        pods=ground.pods,
        workers=stages.workers,
        pleg=observers.pleg,
        pleg_meter=observers.pleg_meter,
        volumes=actuators.volumes,
        cgroups=actuators.resources.levels,
        csi=actuators.csi,
    )
    CountsCollector(counter, ground.recorders.metrics.registry)


def _core_tasks(
    ground: Foundation,
    stages: Stages,
    *,
    control: LoopParts,
    servers: Servers,
    reloader: ConfigReloader,
    others: Callable[[], Parts],
) -> Parts:
    actuators, observers, clock = stages.actuators, stages.observers, ground.recorders.clock
    return {
        "configuration": reloader.run(),
        "runtime-health": observers.health.run(),
        "resources": actuators.resources.levels.run(),
        "probes": observers.probes.run(),
        "workers": stages.workers.run(),
        "pleg": observers.pleg.run(),
        "sync-loop": control.loop.run(),
        "resizes": post_periodic_retries(clock, ground.queue.post),
        "sources": stages.sources.sources.run(),
        "housekeeping": control.housekeeping.run(),
        "pressure": stages.eviction.run(),
        "image-gc": actuators.image_gc.run(),
        "log-rotation": actuators.logs.run(),
        "history": ground.recorders.history.run(partial(_desired_uids, ground, stages)),
        "upkeep": trim_periodically(clock),
        "usage": stages.usage.run(),
        "node-shutdown": stages.shutdown.run(),
        **servers.parts(),
        **others(),
    }


def _standalone_tasks(addresses: NodeAddresses) -> Parts:
    return {"node-addresses": addresses.run()}


def _desired_uids(ground: Foundation, stages: Stages) -> Collection[PodUID] | None:
    """Return the desired pods; None while the sources have not been read."""
    return tuple(ground.pods.uids()) if stages.sources.mux.all_ready() and ground.queue.empty() else None


def _closers(ground: Foundation, stages: Stages) -> tuple[Callable[[], Awaitable[None]], ...]:
    clients = stages.clients
    closing = (clients.cri.close, clients.image_cri.close, ground.http.close, stages.observers.prober.close)
    return (ground.access.close, *closing) if ground.access is not None else closing


def start_faults(node: NodeFacts, root: Path) -> list[tuple[str, str]]:
    """Return reasons and texts of warnings. ``root``: directory in which volumes are. Blocks briefly."""
    found = []
    fault = node.resolv_conf.fault()
    if fault is not None:
        found.append((Reason.CHECK_LIMITS_FOR_RESOLV_CONF, fault))
    if memory_volumes_may_swap(root):
        found.append((Reason.POSSIBLE_MEMORY_BACKED_VOLUMES_ON_DISK, SWAPPED_VOLUMES))
    return found
