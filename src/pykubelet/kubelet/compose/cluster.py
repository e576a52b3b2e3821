"""Composition of node mode: what the agent does beyond manifests when it has a kubeconfig.

Loaded only then, since it brings the API client along. ``main.py`` builds one :class:`Cluster` and runs its parts.
"""

from collections.abc import Coroutine, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pykubelet import KUBERNETES_VERSION
from pykubelet.apiclient import ApiClient, Query, RateLimit, Reflector, Select, Timeouts, load_kubeconfig
from pykubelet.apiclient.reflector import Key
from pykubelet.apiclient.resources import NODES
from pykubelet.base.clock import Clock
from pykubelet.kubelet.compose.joining import ClusterDeps
from pykubelet.kubelet.compose.node_port import server_wanted
from pykubelet.kubelet.compose.node_status import NodeStatusDeps, NodeStatusReader
from pykubelet.kubelet.config import ClusterSettings, Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.desired.pods import PodManager, is_mirror_of
from pykubelet.kubelet.desired.pods.mirror import MirrorDeps, MirrorPods
from pykubelet.kubelet.desired.sources.apiserver import ApiServerSource
from pykubelet.kubelet.report.events.apiserver import EventSink
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.node import (
    CsiNodeKeeper,
    LeaseKeeper,
    NodeConfig,
    NodeDeps,
    NodeReporter,
    Pressure,
    check_labels,
    host_ips,
)
from pykubelet.kubelet.report.status import StatusChange
from pykubelet.kubelet.report.status.apiserver import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodFullName, PodUID, ref_of
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Node, Pod

if TYPE_CHECKING:
    from pykubelet.apiclient.certificates import CertificatePair
    from pykubelet.kubelet.compose.certificates import NodeCertificates


class ClusterAccess:
    """The API server as the stages see it; made before them, since they are given its objects."""

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
        # The heartbeat waits for nobody: it has a client, and so connections, of its own.
        patience = Timeouts(request=config.node_lease_duration_seconds / 4)
        self.heart = ApiClient(server, clock, timeouts=patience, agent=agent, observe=metrics.api_request)
        self.objects = ClusterObjects(self.client, local, clock)
        self.certificates = _certificates(settings, self.client, clock)
        if self.certificates is not None:
            for which, left in self.certificates.seconds_left().items():
                metrics.certificate_ttl(which, left)

    def serving(self) -> "CertificatePair | None":
        """The server's certificate that the cluster has signed; None: it signs its own."""
        return self.certificates.serving() if self.certificates is not None else None

    async def close(self) -> None:
        """Give the connections back."""
        await self.client.close()
        await self.heart.close()


class Cluster:
    """All of node mode, built over the stages."""

    def __init__(self, access: ClusterAccess, deps: ClusterDeps) -> None:
        settings, client, clock = access.settings, access.client, deps.clock
        self.client = client
        self._access = access
        self.objects = access.objects
        self._deps = deps
        self.source = ApiServerSource(client, settings.node_name, deps.mux, lambda: self.mirrors.poke(), clock)
        self.patcher = StatusPatcher(
            PatcherDeps(client, deps.statuses, ApiPodView(deps.pods), clock, access.metrics.status_synced)
        )
        deps.statuses.subscribe(self.patcher.changed)
        self.node_facts = NodeStatusReader(
            NodeStatusDeps(
                settings,
                KUBERNETES_VERSION,
                deps.node,
                deps.image_cri,
                deps.conditions,
                deps.pleg_fault,
                clock,
                pressure=lambda: _pressure(deps.pressure()),
                port=settings.config.port if server_wanted(settings) else 0,
                volumes_in_use=deps.csi.volumes.in_use if deps.csi is not None else tuple,
            )
        )
        self.node = NodeReporter(
            NodeDeps(client, self.node_facts, deps.events, clock, access.metrics.startup), node_config(access)
        )
        self.csi_node = CsiNodeKeeper(client, lambda: self.node.node, self.node.registered, clock)
        if deps.csi is not None:
            deps.csi.drivers.report_to(self.csi_node)
            deps.csi.volumes.on_in_use(self.node.poke)
        self._node_watch = Reflector(
            client, Query(NODES.all(), Select(fields=f"metadata.name={settings.node_name}")), self._node_seen, clock
        )
        self.mirrors = MirrorPods(
            MirrorDeps(client, deps.pods, lambda: self.node.node, self.source.listed, self._ending, clock)
        )
        deps.statuses.subscribe(self._status_changed)
        config = settings.config
        event_limit = RateLimit(config.event_record_qps, config.event_burst, clock)
        self.events = EventSink(access.heart, deps.events.table, event_limit, clock)
        lease_seconds = settings.config.node_lease_duration_seconds
        self.lease = LeaseKeeper(access.heart, settings.node_name, lease_seconds, clock)

    def pod_gone(self, uid: PodUID) -> None:
        """A source gave a pod up."""
        self.objects.release(uid)
        self.mirrors.poke()

    def pod_seen(self, pod: Pod) -> None:
        """A source told of a pod (after the pod manager took it, before its worker hears of it)."""
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
        """The pod is going to be started."""
        self.objects.expect(pod)

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Core tasks by name."""
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
        """Static pods that still have a status: not all of them is gone."""
        entries = self._deps.statuses.snapshot()
        return frozenset(ref_of(entry.pod).full_name for entry in entries if is_static(entry.pod))

    def _status_changed(self, change: StatusChange) -> None:
        if change.current is None and is_static(change.pod):
            self.mirrors.poke()

    def _node_seen(self, nodes: Mapping[Key, Node]) -> None:
        for node in nodes.values():
            self.node.learn(node)
            if self._access.cluster.external_cloud:
                self._deps.node.learn_ips(host_ips(node.status.addresses))
            self.objects.node_seen(node)
        self.mirrors.poke()
        if not nodes and self.node.registered.is_set():
            self.node.gone()


def _certificates(settings: Settings, client: ApiClient, clock: Clock) -> "NodeCertificates | None":
    if not (settings.config.rotate_certificates or settings.config.server_tls_bootstrap):
        return None
    # Only here: cryptography is not small.
    from pykubelet.kubelet.compose.certificates import NodeCertificates

    return NodeCertificates(settings, client, clock)


class ApiPodView:
    """What the API server holds of our pods, by the pod manager."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods

    def counterpart(self, uid: PodUID) -> Pod | None:
        """The pod itself, or the mirror of this very version of a static pod."""
        pod = self._pods.by_uid(uid)
        if pod is None or not is_static(pod):
            return pod
        mirror = self._pods.mirror_of(pod)
        return mirror if mirror is not None and is_mirror_of(mirror, pod) else None


def node_config(access: ClusterAccess) -> NodeConfig:
    """The node object's settings. Invalid: labels that a node may not give itself."""
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
