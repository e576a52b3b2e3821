"""Builds one agent: calls the builders of the stages, and connects their results."""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass

from pykubelet.base.clock import Clock
from pykubelet.base.http_get import HttpGetter
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.compose.actuate import build_actuate
from pykubelet.kubelet.compose.adapters import DesiredPods, NodeCounter
from pykubelet.kubelet.compose.admission_node import AdmissionNode
from pykubelet.kubelet.compose.clients import connect
from pykubelet.kubelet.compose.compose_interfaces import ClusterDeps, NodeStatusDeps
from pykubelet.kubelet.compose.control import LoopPartsDeps, build_loop, build_workers
from pykubelet.kubelet.compose.desired import build_admission, build_manifests, build_sources, post_changed_objects
from pykubelet.kubelet.compose.explain import Explanations
from pykubelet.kubelet.compose.hung_calls import HungCalls
from pykubelet.kubelet.compose.local_api import LocalApiView
from pykubelet.kubelet.compose.local_node import LocalNode
from pykubelet.kubelet.compose.node_mode import cluster_builder, open_access
from pykubelet.kubelet.compose.node_status import NodeStatusReader
from pykubelet.kubelet.compose.node_view import NodeViewDeps, NodeViewer
from pykubelet.kubelet.compose.observe import NodeEvictionDeps, Observers, build_eviction, build_observers, build_usage
from pykubelet.kubelet.compose.pod_requests import PodRequests
from pykubelet.kubelet.compose.recorders import Recorders, build_recorders
from pykubelet.kubelet.compose.report import build_reports
from pykubelet.kubelet.compose.serve import ServeDeps, Servers, build_servers, health_checks
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import EventQueue, post_periodic_retries
from pykubelet.kubelet.desired.admission import Admission
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.report.metrics import CountsCollector
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resize import PendingResizes
from pykubelet.linux.memory_trim import trim_periodically

Parts = dict[str, Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent, ready to start."""

    recorders: Recorders
    actuators: Actuators
    observers: Observers
    admission: Admission
    servers: Servers
    hung_calls: HungCalls
    """The listener for blocking calls that do not respond."""
    parts: Callable[[], Parts]
    """Returns the core tasks by name; each is to be run until the agent ends."""
    closers: tuple[Callable[[], Awaitable[None]], ...]
    """Close the connections; called in reverse order."""


def build_agent(settings: Settings, clock: Clock) -> Agent:
    """Build all components of one agent. Nothing runs yet, and nothing is changed on the machine.

    Raises PykubeletError for an invalid configuration.
    """
    pods, queue, pending, http = PodManager(), EventQueue(), PendingResizes(), HttpGetter()
    recorders = build_recorders(settings, pods, clock)
    telemetry = recorders.telemetry()
    manifests = build_manifests(recorders.events)
    access = open_access(settings, local=manifests.objects, queue=queue, recorders=recorders)
    clients = connect(settings, recorders.metrics)
    actuators = build_actuate(
        settings, clients=clients, local=manifests.objects, access=access, http=http, telemetry=telemetry
    )
    reports = build_reports(actuators=actuators, pods=pods, pending=pending, recorders=recorders)
    observers = build_observers(clients, actuators, queue, telemetry)
    usage = build_usage(settings, clients=clients, actuators=actuators, pods=reports.view, clock=clock)
    workers = build_workers(actuators=actuators, observers=observers, statuses=reports.statuses, recorders=recorders)
    eviction = build_eviction(
        settings,
        NodeEvictionDeps(clients=clients, actuators=actuators, workers=workers, usage=usage, telemetry=telemetry),
    )
    sources = build_sources(settings, manifests=manifests, access=access, queue=queue, clock=clock)
    csi = actuators.csi
    node_status = NodeStatusDeps(
        settings=settings,
        node=actuators.node,
        image_cri=clients.image_cri,
        conditions=observers.health.current,
        pleg_fault=observers.pleg.healthy,
        pressure=eviction.conditions,
        volumes_in_use=csi.volumes.in_use if csi is not None else tuple,
        clock=clock,
    )
    cluster_deps = ClusterDeps(
        pods=pods,
        mux=sources.mux,
        statuses=reports.statuses,
        status=node_status,
        csi=csi,
        runtime_recovered=observers.runtime_recovered,
    )
    cluster = cluster_builder()(access, recorders, cluster_deps) if access is not None else None
    registered = cluster.registered if cluster is not None else lambda: None
    admission_node = AdmissionNode(
        settings=settings,
        facts=actuators.node,
        registered=registered,
        conditions=eviction.conditions,
    )
    admission = build_admission(
        node=admission_node, workers=workers, actuators=actuators, pending=pending, telemetry=telemetry
    )
    follower = cluster.pods if cluster is not None else None
    control = build_loop(
        LoopPartsDeps(
            desired=DesiredPods(pods=pods, view=reports.view, follower=follower, changed=recorders.metrics.pod_changed),
            mux=sources.mux,
            workers=workers,
            admission=admission,
            actuators=actuators,
            queue=queue,
            recorders=recorders,
        )
    )
    post_changed_objects(access.objects if access is not None else manifests.objects, pods, queue)
    view = LocalApiView(
        name=settings.node_name,
        clients=clients,
        facts=actuators.node,
        manifests=manifests,
        manifest_path=settings.config.static_pod_path,
        recorders=recorders,
        local_node=LocalNode(
            name=settings.node_name, registered=registered, reader=NodeStatusReader(node_status), clock=clock
        ),
        requests=PodRequests(
            restarts=actuators.runtime.restarts,
            images=actuators.images,
            wake=queue.post_affected,
        ),
        runtime_fault=observers.health.healthy,
        viewer=NodeViewer(
            NodeViewDeps(
                settings=settings,
                facts=actuators.node,
                admission=admission_node.node,
                active=workers.active,
                manifests=manifests,
            )
        ),
        explain=Explanations(pods=reports.view, workers=workers, probes=observers.probes, recorders=recorders),
    )
    servers = build_servers(
        settings,
        ServeDeps(
            pods=reports.view,
            node=view,
            checks=health_checks(settings, control.loop, observers),
            usage=usage,
            access=access,
            recorders=recorders,
        ),
    )
    counter = NodeCounter(
        pods=pods,
        workers=workers,
        pleg=observers.pleg,
        pleg_meter=observers.pleg_meter,
        volumes=actuators.volumes,
        csi=csi,
    )
    CountsCollector(counter, recorders.metrics.registry)

    def desired_uids() -> Collection[PodUID] | None:
        return tuple(pods.uids()) if sources.mux.all_ready() and queue.empty() else None

    def parts() -> Parts:
        return {
            "runtime-health": observers.health.run(),
            "resources": actuators.resources.run(),
            "probes": observers.probes.run(),
            "workers": workers.run(),
            "pleg": observers.pleg.run(),
            "sync-loop": control.loop.run(),
            "resizes": post_periodic_retries(clock, queue.post),
            "sources": sources.sources.run(),
            "housekeeping": control.housekeeping.run(),
            "pressure": eviction.run(),
            "image-gc": actuators.image_gc.run(),
            "log-rotation": actuators.logs.run(),
            "history": recorders.history.run(desired_uids),
            "upkeep": trim_periodically(clock),
            "usage": usage.run(),
            **servers.parts(),
            **(cluster.parts() if cluster is not None else {}),
        }

    closing = (clients.cri.close, clients.image_cri.close, http.close, observers.prober.close)
    return Agent(
        recorders=recorders,
        actuators=actuators,
        observers=observers,
        admission=admission,
        servers=servers,
        hung_calls=HungCalls(pods.by_uid, recorders.events),
        parts=parts,
        closers=(access.close, *closing) if access is not None else closing,
    )
