"""Composition of node mode, in which the agent has a kubeconfig and is a node of a cluster.

Loaded only then, since it imports the API client.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from pykubelet.apiclient import Query, Reflector, Select
from pykubelet.apiclient.reflector import Key
from pykubelet.apiclient.resources import NODES
from pykubelet.base.callbacks import Callbacks
from pykubelet.base.rate_limit import RateLimit
from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.compose.api_access import ApiAccess
from pykubelet.kubelet.compose.compose_interfaces import ClusterDeps
from pykubelet.kubelet.compose.node_status import NodeStatusReader
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.desired.pods import PodManager, is_mirror_of
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorDeps, MirrorPods
from pykubelet.kubelet.desired.sources.api_source import ApiServerSource
from pykubelet.kubelet.report.events.event_sink import EventSink
from pykubelet.kubelet.report.node import (
    CsiNodeReporter,
    LeaseRenewer,
    NodeConfig,
    NodeDeps,
    NodeReporter,
    check_labels,
    host_ips,
)
from pykubelet.kubelet.report.status.status_patcher import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodFullName, PodUID, ref_of
from pykubelet.kubelet.types.status_changes import StatusChange
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Node, Pod

Parts = dict[str, Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPods:
    """The part of node mode that follows the desired pods."""

    pods: PodManager
    objects: ClusterObjects
    patcher: StatusPatcher
    mirrors: MirrorPods

    def pod_gone(self, uid: PodUID) -> None:
        """Handle the removal of a pod from its source."""
        self.objects.release(uid)
        self.mirrors.poke()

    def pod_seen(self, pod: Pod) -> None:
        """Handle a new or changed pod (called after the pod manager, before the pod's worker)."""
        if is_mirror(pod):
            shown = self.pods.pod_of_mirror(pod)
            if shown is not None:
                self.patcher.seen(ref_of(shown).uid)
            self.mirrors.poke()
        elif is_static(pod):
            self.mirrors.poke()
        else:
            self.objects.use(pod)
            self.patcher.seen(ref_of(pod).uid)

    def pod_admitted(self, pod: Pod) -> None:
        """Handle the admission of a pod: read the objects that it uses ahead of time."""
        self.objects.expect(pod)

    def status_changed(self, change: StatusChange) -> None:
        """Reconcile the mirror pods when a static pod has been removed completely."""
        if change.current is None and is_static(change.pod):
            self.mirrors.poke()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFollower:
    """Passes each version of the Node object on to the components that need it."""

    reporter: NodeReporter
    facts: NodeFacts
    objects: ClusterObjects
    mirrors: MirrorPods
    external_cloud: bool

    def seen(self, nodes: Mapping[Key, Node]) -> None:
        """Handle the result of a list, or a watch event; empty: there is no such node."""
        for node in nodes.values():
            self.reporter.node_updated(node)
            if self.external_cloud:
                self.facts.learn_ips(host_ips(node.status.addresses))
            self.objects.node_seen(node)
        self.mirrors.poke()
        if not nodes and self.reporter.registered.is_set():
            self.reporter.node_deleted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Node mode: the components that connect the stages to the API server."""

    pods: ClusterPods
    node: NodeReporter
    parts: Callable[[], Parts]
    """Returns the core tasks by name."""

    def registered(self) -> Node | None:
        """Return the Node object as the API server has it; None before it is registered."""
        return self.node.node


def build_cluster(access: ApiAccess, recorders: Recorders, deps: ClusterDeps) -> Cluster:
    """Build node mode. Raises Invalid for labels that a node may not set itself."""
    settings, client, clock, metrics = deps.status.settings, access.client, recorders.clock, recorders.metrics
    telemetry = recorders.telemetry()
    name, statuses = settings.node_name, deps.statuses
    listed = Callbacks[[]]()
    source = ApiServerSource(client=client, node_name=name, mux=deps.mux, first=listed, clock=clock)
    patcher = StatusPatcher(
        PatcherDeps(
            client=client,
            statuses=statuses,
            pods=ApiPodView(deps.pods),
            telemetry=telemetry,
        )
    )
    statuses.subscribe(patcher.changed)
    reporter = NodeReporter(
        NodeDeps(
            client=client,
            facts=NodeStatusReader(deps.status),
            telemetry=telemetry.measured_by(metrics.startup),
        ),
        node_config(settings, access),
    )
    deps.runtime_recovered.subscribe(reporter.poke)

    def registered() -> Node | None:
        return reporter.node

    def ending() -> frozenset[PodFullName]:
        """Return the static pods that still have a status, and so are not removed completely."""
        return frozenset(ref_of(entry.pod).full_name for entry in statuses.snapshot() if is_static(entry.pod))

    mirrors = MirrorPods(
        MirrorDeps(client=client, pods=deps.pods, node=registered, listed=source.listed, ending=ending, clock=clock)
    )
    listed.subscribe(mirrors.poke)
    pods = ClusterPods(pods=deps.pods, objects=access.objects, patcher=patcher, mirrors=mirrors)
    statuses.subscribe(pods.status_changed)
    follower = NodeFollower(
        reporter=reporter,
        facts=deps.status.node,
        objects=access.objects,
        mirrors=mirrors,
        external_cloud=access.cluster.external_cloud,
    )
    watch = Reflector(
        client=client,
        query=Query(NODES.all(), Select(fields=f"metadata.name={name}")),
        deliver=follower.seen,
        clock=clock,
    )
    csi_node = CsiNodeReporter(client=client, node=registered, registered=reporter.registered, clock=clock)
    if deps.csi is not None:
        deps.csi.events.installed.subscribe(csi_node.installed)
        deps.csi.events.removed.subscribe(csi_node.removed)
        deps.csi.events.in_use_changed.subscribe(reporter.poke)
    config = settings.config
    event_limit = RateLimit(config.event_record_qps, config.event_burst, clock=clock)
    log = recorders.events
    events = EventSink(client=access.heart, table=log.table, limit=event_limit, clock=clock, is_old=log.is_restored)
    lease = LeaseRenewer(client=access.heart, node=name, duration=config.node_lease_duration_seconds, clock=clock)

    def parts() -> Parts:
        return {
            "source-api": source.run(),
            "status-patcher": patcher.run(),
            "node": reporter.run(),
            "node-watch": watch.run(),
            "event-sink": events.run(),
            "mirror-pods": mirrors.run(),
            "lease": lease.run(),
            "csi-node": csi_node.run(),
            **(deps.csi.parts() if deps.csi is not None else {}),
            **access.objects.parts(),
            **(access.certificates.parts() if access.certificates is not None else {}),
        }

    return Cluster(pods=pods, node=reporter, parts=parts)


class ApiPodView:
    """The API server's objects of this node's pods, as the pod manager has them."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods

    def counterpart(self, uid: PodUID) -> Pod | None:
        """Return the pod itself, or the mirror pod of the current version of a static pod."""
        pod = self._pods.by_uid(uid)
        if pod is None or not is_static(pod):
            return pod
        mirror = self._pods.mirror_of(pod)
        return mirror if mirror is not None and is_mirror_of(mirror, pod) else None


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
        given_ips=access.cluster.given_ips,
    )
