"""Composition of node mode, in which the agent has a kubeconfig and is a node of a cluster.

Loaded only then, since it imports the API client. ``main.py`` builds one :class:`Cluster` and runs its parts.
"""

from collections.abc import Coroutine, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pykubelet import KUBERNETES_VERSION
from pykubelet.apiclient import ApiClient, Query, Reflector, Select, Timeouts, load_kubeconfig
from pykubelet.apiclient.reflector import Key
from pykubelet.apiclient.resources import NODES
from pykubelet.base.clock import Clock
from pykubelet.base.rate_limit import RateLimit
from pykubelet.kubelet.compose.kubelet_api import server_wanted
from pykubelet.kubelet.compose.node_mode import ClusterDeps
from pykubelet.kubelet.compose.node_status import NodeStatusDeps, NodeStatusReader
from pykubelet.kubelet.config import ClusterSettings, Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.desired.pods import PodManager, is_mirror_of
from pykubelet.kubelet.desired.pods.mirror import MirrorDeps, MirrorPods
from pykubelet.kubelet.desired.sources.apiserver import ApiServerSource
from pykubelet.kubelet.report.events.sink import EventSink
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.node import (
    CsiNodeReporter,
    LeaseRenewer,
    NodeConfig,
    NodeDeps,
    NodeReporter,
    Pressure,
    check_labels,
    host_ips,
)
from pykubelet.kubelet.report.status import StatusChange
from pykubelet.kubelet.report.status.patcher import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodFullName, PodUID, ref_of
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Node, Pod

if TYPE_CHECKING:
    from pykubelet.apiclient.certificates import CertificatePair
    from pykubelet.kubelet.compose.certificates import NodeCertificates


class ClusterAccess:
    """The client and objects of the API server; built before the stages, which use its objects."""

    def __init__(self, settings: Settings, local: Objects, metrics: KubeletMetrics, clock: Clock) -> None:
        cluster = settings.cluster
        assert cluster is not None, "only made for a cluster"
        config, agent = settings.config, f"pykubelet/{KUBERNETES_VERSION}"
        self.settings = settings
        self.cluster: ClusterSettings = cluster
        self.metrics = metrics
        server = load_kubeconfig(cluster.kubeconfig)
        limit = RateLimit(config.kube_apiqps, config.kube_api_burst, clock)
        self.client = ApiClient(server, clock, limit=limit, agent=agent, observe=metrics.api_request)
        # The heartbeat must not wait for other requests: it has a client, and so connections, of its own.
        patience = Timeouts(request=config.node_lease_duration_seconds / 4)
        self.heart = ApiClient(server, clock, timeouts=patience, agent=agent, observe=metrics.api_request)
        self.objects = ClusterObjects(self.client, local, clock)
        self.certificates = _certificates(settings, self.client, clock)
        if self.certificates is not None:
            for which, left in self.certificates.seconds_left().items():
                metrics.certificate_ttl(which, left)

    def serving(self) -> "CertificatePair | None":
        """Return the serving certificate that the cluster has signed; None: the server signs its own."""
        return self.certificates.serving() if self.certificates is not None else None

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()
        await self.heart.close()


class Cluster:
    """Node mode: the components that connect the stages to the API server."""

    def __init__(self, access: ClusterAccess, deps: ClusterDeps) -> None:
        settings, client, clock = access.settings, access.client, deps.clock
        self.client = client
        self._access = access
        self.objects = access.objects
        self._deps = deps
        self.source = ApiServerSource(client, settings.node_name, deps.mux, lambda: self.mirrors.poke(), clock)
        self.patcher = StatusPatcher(
            PatcherDeps(
                client=client,
                statuses=deps.statuses,
                pods=ApiPodView(deps.pods),
                clock=clock,
                synced=access.metrics.status_synced,
            )
        )
        deps.statuses.subscribe(self.patcher.changed)
        self.node_facts = NodeStatusReader(
            NodeStatusDeps(
                settings=settings,
                version=KUBERNETES_VERSION,
                node=deps.node,
                image_cri=deps.image_cri,
                conditions=deps.conditions,
                pleg_fault=deps.pleg_fault,
                clock=clock,
                pressure=lambda: _pressure(deps.pressure()),
                port=settings.config.port if server_wanted(settings) else 0,
                volumes_in_use=deps.csi.volumes.in_use if deps.csi is not None else tuple,
            )
        )
        self.node = NodeReporter(
            NodeDeps(
                client=client, facts=self.node_facts, events=deps.events, clock=clock, startup=access.metrics.startup
            ),
            node_config(access),
        )
        self.csi_node = CsiNodeReporter(client, lambda: self.node.node, self.node.registered, clock)
        if deps.csi is not None:
            deps.csi.drivers.report_to(self.csi_node)
            deps.csi.volumes.on_in_use(self.node.poke)
        self._node_watch = Reflector(
            client, Query(NODES.all(), Select(fields=f"metadata.name={settings.node_name}")), self._node_seen, clock
        )
        self.mirrors = MirrorPods(
            MirrorDeps(
                client=client,
                pods=deps.pods,
                node=lambda: self.node.node,
                listed=self.source.listed,
                ending=self._ending,
                clock=clock,
            )
        )
        deps.statuses.subscribe(self._status_changed)
        config = settings.config
        event_limit = RateLimit(config.event_record_qps, config.event_burst, clock)
        self.events = EventSink(access.heart, deps.events.table, event_limit, clock)
        lease_seconds = settings.config.node_lease_duration_seconds
        self.lease = LeaseRenewer(access.heart, settings.node_name, lease_seconds, clock)

    def pod_gone(self, uid: PodUID) -> None:
        """Handle the removal of a pod from its source."""
        self.objects.release(uid)
        self.mirrors.poke()

    def pod_seen(self, pod: Pod) -> None:
        """Handle a new or changed pod (called after the pod manager, before the pod's worker)."""
        if is_mirror(pod):
            shown = self._deps.pods.pod_of_mirror(pod)
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

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {
            "source-api": self.source.run(),
            "status-patcher": self.patcher.run(),
            "node": self.node.run(),
            "node-watch": self._node_watch.run(),
            "event-sink": self.events.run(),
            "mirror-pods": self.mirrors.run(),
            "lease": self.lease.run(),
            "csi-node": self.csi_node.run(),
            **(self._deps.csi.parts() if self._deps.csi is not None else {}),
            **self.objects.parts(),
            **(self._access.certificates.parts() if self._access.certificates is not None else {}),
        }

    def _ending(self) -> frozenset[PodFullName]:
        """Return the static pods that still have a status, and so are not removed completely."""
        entries = self._deps.statuses.snapshot()
        return frozenset(ref_of(entry.pod).full_name for entry in entries if is_static(entry.pod))

    def _status_changed(self, change: StatusChange) -> None:
        if change.current is None and is_static(change.pod):
            self.mirrors.poke()

    def _node_seen(self, nodes: Mapping[Key, Node]) -> None:
        for node in nodes.values():
            self.node.node_updated(node)
            if self._access.cluster.external_cloud:
                self._deps.node.learn_ips(host_ips(node.status.addresses))
            self.objects.node_seen(node)
        self.mirrors.poke()
        if not nodes and self.node.registered.is_set():
            self.node.node_deleted()


def _certificates(settings: Settings, client: ApiClient, clock: Clock) -> "NodeCertificates | None":
    if not (settings.config.rotate_certificates or settings.config.server_tls_bootstrap):
        return None
    # Imported here, since cryptography needs much memory.
    from pykubelet.kubelet.compose.certificates import NodeCertificates

    return NodeCertificates(settings, client, clock)


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


def node_config(access: ClusterAccess) -> NodeConfig:
    """Return the settings of the Node object. Raises Invalid for labels that a node may not set itself."""
    settings, config = access.settings, access.settings.config
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
        lease_seconds=config.node_lease_duration_seconds,
        external_cloud=access.cluster.external_cloud,
        given_ips=access.cluster.given_ips,
    )


def _pressure(conditions: AbstractSet[str]) -> Pressure:
    return Pressure(
        memory="MemoryPressure" in conditions, disk="DiskPressure" in conditions, pids="PIDPressure" in conditions
    )
