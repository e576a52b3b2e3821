"""The local API's view of the other stages."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

import pykubelet
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.node import NodeFacts
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.compose.local_api.pod_requests import PodRequests
from pykubelet.kubelet.compose.node.local_node import LocalNode
from pykubelet.kubelet.compose.node.node_view import NodeViewer
from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.serve.local_socket import (
    ImageView,
    ManifestsView,
    ManifestView,
    ProblemView,
    PullView,
    VersionView,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.reports.explain_views import ExplainView
from pykubelet.kubelet.types.reports.node_view import ApplyRequest, ApplyView, NodeView, ObjectView
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Event, Node, Secret
from pykubelet.pb import images_v1_pb2 as transfer


class LocalApiView(Struct, frozen=True, kw_only=True):
    """The local API server's ``Node``."""

    name: str
    configuration: Callable[[], ConfigView]
    """Returns the state of the configuration."""
    clients: RuntimeClients
    facts: NodeFacts
    manifests: ManifestStates
    local_objects: LocalObjects
    manifest_path: str
    """The directory or file of manifests; empty: the agent reads no such path."""
    recorders: Recorders
    local_node: LocalNode
    requests: PodRequests
    runtime_fault: Callable[[], str | None]
    viewer: NodeViewer
    explain: Callable[[PodUID], ExplainView | None]
    """Returns why a pod is in its state."""
    apply: Callable[[ApplyRequest], Awaitable[ApplyView]]
    """Creates or changes objects in the manifest directory."""

    async def images(self) -> Sequence[ImageView]:
        """Return the images of the runtime."""
        return [
            ImageView(
                id=image.id,
                repo_tags=tuple(image.repo_tags),
                repo_digests=tuple(image.repo_digests),
                size=Bytes(image.size),
                pinned=image.pinned,
            )
            for image in await self.clients.image_cri.list_images()
        ]

    async def pulls(self) -> Sequence[PullView]:
        """Return the pulls that are running; none if the runtime does not report them."""
        return [
            PullView(
                image=pull.image,
                phase=transfer.Phase.Name(pull.phase).lower(),
                done=Bytes(pull.done),
                total=Bytes(pull.total),
            )
            for pull in await self.clients.image_cri.list_pulls()
        ]

    def problems(self) -> Sequence[ProblemView]:
        """Return the problems of manifests, and of a runtime that is not responding."""
        found = [
            ProblemView(subject=problem.origin, reason=Reason.FAILED_VALIDATION, message=str(problem))
            for problem in self.manifests.problems()
        ]
        fault = self.runtime_fault()
        if fault:
            found.append(ProblemView(subject="container runtime", reason=Reason.RUNTIME_NOT_READY, message=fault))
        return found

    def timeline(self, uid: PodUID) -> TimelineView | None:
        """Return the timeline of the pod's starts."""
        return self.recorders.timelines.view(uid)

    def ends(self, uid: PodUID) -> Sequence[ContainerEnd]:
        """Return the last ends of the pod's containers."""
        return self.recorders.history.ends(uid)

    async def older_events(self, matches: Callable[[Event], bool]) -> Sequence[Event]:
        """Return the events that match and are not in memory any more."""
        return await self.recorders.history.older_events(matches)

    def objects(self) -> Sequence[ObjectView]:
        """Return the ConfigMaps and Secrets of the manifests, with the file that each comes from."""
        return self.viewer.objects()

    def node_view(self) -> NodeView:
        """Return what manifests are checked against."""
        return self.viewer.view()

    def manifest_files(self) -> ManifestsView:
        """Return the manifest directory and its files."""
        items = tuple(
            ManifestView(
                file=state.origin,
                objects=tuple(map(str, state.objects)),
                kept=tuple(map(str, state.kept)),
                problems=tuple(map(str, state.problems)),
            )
            for state in self.manifests.states()
            if state.source is Source.FILE
        )
        return ManifestsView(path=self.manifest_path, node_name=self.name, items=items)

    def manifest_objects(self) -> Sequence[ConfigMap | Secret]:
        """Return the ConfigMaps and Secrets of the manifests."""
        return self.local_objects.objects()

    async def node(self) -> Node:
        """Return the Node object."""
        return await self.local_node.read()

    def version(self) -> VersionView:
        """Return the versions of the agent and the runtime."""
        return VersionView(
            agent=pykubelet.__version__,
            kubernetes=pykubelet.KUBERNETES_VERSION,
            runtime_name=self.facts.runtime.name,
            runtime_version=self.facts.runtime.version,
            runtime_endpoint=self.clients.runtime_endpoint,
            image_endpoint=self.clients.image_endpoint,
            node_name=self.name,
        )
