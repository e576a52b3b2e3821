"""The components of a node that follow its pods and its Node object, and pass each version on."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.apiclient.held_objects import Key
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.desired.pods import PodManager, current_mirror
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorPods
from pykubelet.kubelet.report.node import NodeReporter, host_ips
from pykubelet.kubelet.report.status.status_manager import StatusManager
from pykubelet.kubelet.report.status.status_patcher import StatusPatcher
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.updates import is_mirror, is_static
from pykubelet.models.core_v1 import Node, Pod


class ClusterPods(Struct, frozen=True, kw_only=True):
    """The part of node mode that follows the desired pods."""

    pods: PodManager
    objects: ClusterObjects
    statuses: StatusManager
    patcher: StatusPatcher
    mirrors: MirrorPods

    def __post_init__(self) -> None:
        self.statuses.subscribe(self.status_changed)

    def pod_gone(self, uid: PodUID) -> None:
        """Handle the removal of a pod from its source."""
        self.objects.release(uid)
        self.mirrors.poke()

    def pod_seen(self, pod: Pod) -> None:
        """Handle a new or changed pod (called after the pod manager, before the pod's worker)."""
        if is_mirror(pod):
            shown = self.pods.pod_of_mirror(pod)
            if shown is not None:
                self.statuses.mirror_seen(shown)
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


class NodeFollower(Struct, frozen=True, kw_only=True):
    """Passes each version of the Node object on to the components that need it."""

    reporter: NodeReporter
    facts: NodeFacts
    objects: ClusterObjects
    mirrors: MirrorPods
    external_cloud: bool

    def seen(self, nodes: Mapping[Key, Node]) -> None:
        """Handle the result of a list, or a watch event; empty: there is no such node."""
        for node in nodes.values():
            if not self.reporter.node_updated(node):
                continue
            if self.external_cloud:
                self.facts.learn_ips(host_ips(node.status.addresses))
            self.objects.node_seen(node)
        self.mirrors.poke()
        if not nodes:
            self.reporter.node_missing()

    def reread(self, node: Node) -> None:
        """Take over a Node object that was read for admission, unless the watch has brought a newer one."""
        if self.reporter.lacks(node):
            self.seen({("", node.metadata.name): node})


class ApiPodView:
    """The API server's objects of this node's pods, as the pod manager has them."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods

    def counterpart(self, uid: PodUID) -> Pod | None:
        """Return the pod itself, or the mirror pod of the current version of a static pod."""
        pod = self._pods.by_uid(uid)
        if pod is None or not is_static(pod):
            return pod
        return current_mirror(self._pods, pod)
