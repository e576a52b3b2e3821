"""Composition of node mode, in which the agent has a kubeconfig and is a node of a cluster.

Loaded only then, since it imports the API client.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from pykubelet.apiclient import ObjectSelector, Query, Reflector
from pykubelet.apiclient.resources import NODES
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.kubelet.actuate.host.firewall_chains import FirewallChains
from pykubelet.kubelet.actuate.volumes.csi import CsiEvents
from pykubelet.kubelet.compose.cluster.api_access import ApiAccess
from pykubelet.kubelet.compose.cluster.cluster_interfaces import ClusterDeps
from pykubelet.kubelet.compose.cluster.followers import ApiPodView, ClusterPods, NodeFollower
from pykubelet.kubelet.compose.cluster.live_parts import cluster_live_parts, event_rate
from pykubelet.kubelet.compose.node.node_status import NodeStatusReader
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.addresses import specified_addresses
from pykubelet.kubelet.config.live_settings import LivePart
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorDeps, MirrorPods
from pykubelet.kubelet.desired.sources.api_source import ApiServerSource
from pykubelet.kubelet.report.events.event_sink import EventSink
from pykubelet.kubelet.report.node import (
    CsiNodeReporter,
    CsiNodeState,
    LeaseRenewer,
    NodeConfig,
    NodeDeps,
    NodeReporter,
    check_labels,
)
from pykubelet.kubelet.report.node.node_rereader import NodeRereader
from pykubelet.kubelet.report.status import StatusManager
from pykubelet.kubelet.report.status.status_patcher import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodFullName, ref_of
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Node

Parts = dict[str, Coroutine[None, None, None]]


class Cluster(Struct, frozen=True, kw_only=True):
    """Node mode: the components that connect the stages to the API server."""

    pods: ClusterPods
    node: NodeReporter
    rereader: NodeRereader
    tasks: Mapping[str, Callable[[], Coroutine[None, None, None]]]
    """The core tasks by name."""
    others: tuple[Callable[[], Parts], ...]
    """Those of components with several tasks."""
    live: tuple[LivePart[Any], ...]
    """The components that take changes of the configuration while they run."""

    def parts(self) -> Parts:
        """Return the core tasks by name."""
        return {
            **{name: run() for name, run in self.tasks.items()},
            **{name: part for parts in self.others for name, part in parts().items()},
        }


def build_cluster(access: ApiAccess, recorders: Recorders, deps: ClusterDeps) -> Cluster:
    """Build node mode. Raises Invalid for labels that a node may not set itself."""
    settings, clock = access.settings, recorders.clock
    source = ApiServerSource(client=access.client, node_name=settings.node_name, mux=deps.mux, clock=clock)
    patcher = _status_patcher(access, recorders, pods=deps.pods, statuses=deps.statuses)
    csi_state = CsiNodeState()
    drivers = deps.csi.events if deps.csi is not None else CsiEvents()
    changes = (*deps.node_changed, csi_state.initialized, drivers.in_use_changed)
    reporter = _node_reporter(access, recorders, reader=deps.reader, csi=csi_state, changes=changes)
    ending = partial(_ending, deps.statuses, deps.pods)
    mirrors = MirrorPods(
        MirrorDeps(
            client=access.client,
            pods=deps.pods,
            node=reporter.current,
            listed=source.listed,
            first_listed=source.first_listed,
            ending=ending,
            clock=clock,
        )
    )
    pods = ClusterPods(pods=deps.pods, objects=access.objects, statuses=deps.statuses, patcher=patcher, mirrors=mirrors)
    follower = NodeFollower(
        reporter=reporter,
        facts=deps.facts,
        objects=access.objects,
        mirrors=mirrors,
        external_cloud=access.cluster.external_cloud,
    )
    name = settings.node_name
    rereader = NodeRereader(client=access.client, name=name, deliver=follower.reread, done=deps.node_read, clock=clock)
    watch = _node_watch(access, name, follower=follower, clock=clock)
    csi_node = _csi_node_reporter(access, drivers, reporter=reporter, state=csi_state, clock=clock)
    events = _event_sink(access, recorders)
    lease = _lease_renewer(access, settings, clock)
    tasks = {
        "source-api": source.run,
        "status-patcher": patcher.run,
        "node": reporter.run,
        "node-watch": watch.run,
        "node-reread": rereader.run,
        "event-sink": events.run,
        "mirror-pods": mirrors.run,
        "lease": lease.run,
        "csi-node": csi_node.run,
        **({"firewall-chains": FirewallChains(clock).run} if settings.config.make_ip_tables_util_chains else {}),
    }
    several = (deps.csi, access.objects, access.certificates)
    return Cluster(
        pods=pods,
        node=reporter,
        rereader=rereader,
        tasks=tasks,
        others=tuple(each.parts for each in several if each is not None),
        live=cluster_live_parts(reporter, events, partial(node_config, access=access)),
    )


def _status_patcher(
    access: ApiAccess, recorders: Recorders, *, pods: PodManager, statuses: StatusManager
) -> StatusPatcher:
    """Build what patches the statuses of pods."""
    return StatusPatcher(
        PatcherDeps(
            client=access.client,
            statuses=statuses,
            pods=ApiPodView(pods),
            telemetry=recorders.telemetry(recorders.metrics.node),
        )
    )


def _node_reporter(
    access: ApiAccess,
    recorders: Recorders,
    *,
    reader: NodeStatusReader,
    csi: CsiNodeState,
    changes: tuple[Callbacks[[]], ...],
) -> NodeReporter:
    """Build what maintains the Node object. Raises Invalid for labels that a node may not set itself."""
    return NodeReporter(
        NodeDeps(
            client=access.client,
            facts=reader,
            addresses=access.addresses_seen,
            storage=csi,
            changes=changes,
            telemetry=recorders.telemetry(recorders.metrics.startup),
        ),
        node_config(access.settings, access),
    )


def _lease_renewer(access: ApiAccess, settings: Settings, clock: Clock) -> LeaseRenewer:
    """Build what renews the node's lease, over the connections of heartbeats."""
    duration = settings.config.node_lease_duration_seconds
    return LeaseRenewer(client=access.heart, node=settings.node_name, duration=duration, clock=clock)


def _ending(statuses: StatusManager, pods: PodManager) -> frozenset[PodFullName]:
    """Return the static pods that no source lists and that still have a status, and so are not gone yet."""
    known = (entry.pod for entry in statuses.snapshot() if is_static(entry.pod))
    return frozenset(ref_of(pod).full_name for pod in known if pods.by_uid(ref_of(pod).uid) is None)


def _node_watch(access: ApiAccess, name: str, *, follower: NodeFollower, clock: Clock) -> Reflector[Node]:
    """Build the watch of this node's object."""
    query = Query(NODES.all(), ObjectSelector(fields=f"metadata.name={name}"))
    return Reflector(client=access.client, query=query, deliver=follower.seen, clock=clock)


def _csi_node_reporter(
    access: ApiAccess, drivers: CsiEvents, *, reporter: NodeReporter, state: CsiNodeState, clock: Clock
) -> CsiNodeReporter:
    """Build what maintains the CSINode object."""
    return CsiNodeReporter(
        client=access.client,
        node=reporter.current,
        registered=reporter.registered,
        replaced=reporter.replaced,
        state=state,
        installed=drivers.installed,
        removed=drivers.removed,
        clock=clock,
    )


def _event_sink(access: ApiAccess, recorders: Recorders) -> EventSink:
    """Build what sends events to the API server, within the configured rate."""
    log, clock = recorders.events, recorders.clock
    rate, burst = event_rate(access.settings)
    limit = RateLimit(rate, burst, clock=clock)
    return EventSink(client=access.heart, table=log.table, limit=limit, clock=clock, is_old=log.is_restored)


def node_config(settings: Settings, access: ApiAccess) -> NodeConfig:
    """Return the settings of the Node object. Raises Invalid for labels that a node may not set itself."""
    config = settings.config
    check_labels(access.cluster.node_labels)
    return NodeConfig(
        name=settings.node_name,
        provider_id=access.cluster.provider_id or config.provider_id,
        labels=access.cluster.node_labels,
        taints=config.register_with_taints,
        register=config.register_node,
        controller_attach=config.enable_controller_attach_detach,
        update_every=settings.seconds(config.node_status_update_frequency),
        report_every=settings.seconds(config.node_status_report_frequency),
        max_images=config.node_status_max_images,
        external_cloud=access.cluster.external_cloud,
        given_ips=specified_addresses(settings.given_ips),
        has_given_ips=bool(settings.given_ips),
    )
