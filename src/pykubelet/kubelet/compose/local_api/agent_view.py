"""The local API's view of the other stages, by subject."""

from collections.abc import Callable, Sequence

from msgspec import Struct

import pykubelet
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.compose.node.local_node import LocalNode
from pykubelet.kubelet.compose.node.node_view import ManifestChanges, NodeViewer
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.report.history import History
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.serve.local_api import (
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
from pykubelet.kubelet.types.reports.node_view import ApplyRequest, ApplyView, NodeView, ObjectView
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Event, Node, Secret
from pykubelet.pb import images_v1_pb2 as transfer


class RuntimeImages(Struct, frozen=True, kw_only=True):
    """The images of the runtime."""

    cri: CriClient

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
            for image in await self.cri.list_images()
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
            for pull in await self.cri.list_pulls()
        ]


class PodHistory(Struct, frozen=True, kw_only=True):
    """Events and timelines of pods, also of the time before the agent was started."""

    timelines: PodTimelines
    history: History

    def timeline(self, uid: PodUID) -> TimelineView | None:
        """Return the timeline of the pod's starts."""
        return self.timelines.view(uid)

    def ends(self, uid: PodUID) -> Sequence[ContainerEnd]:
        """Return the last ends of the pod's containers."""
        return self.history.ends(uid)

    async def older_events(self, matches: Callable[[Event], bool]) -> Sequence[Event]:
        """Return the events that match and are not in memory any more."""
        return await self.history.older_events(matches)


class LocalManifests(Struct, frozen=True, kw_only=True):
    """The manifests of this machine: what the agent has read of them, and changes of them."""

    path: str
    """The directory or file of manifests; empty: the agent reads no such path."""
    node_name: str
    states: ManifestStates
    defined: LocalObjects
    viewer: NodeViewer
    changes: ManifestChanges

    def files(self) -> ManifestsView:
        """Return the manifest directory and its files."""
        items = tuple(
            ManifestView(
                file=state.origin,
                objects=tuple(map(str, state.objects)),
                kept=tuple(map(str, state.kept)),
                problems=tuple(map(str, state.problems)),
            )
            for state in self.states.states()
            if state.source is Source.FILE
        )
        return ManifestsView(path=self.path, node_name=self.node_name, items=items)

    def objects(self) -> Sequence[ConfigMap | Secret]:
        """Return the ConfigMaps and Secrets of the manifests."""
        return self.defined.objects()

    def object_views(self) -> Sequence[ObjectView]:
        """Return the ConfigMaps and Secrets of the manifests, with the file that each comes from."""
        return self.viewer.objects()

    async def apply(self, request: ApplyRequest) -> ApplyView:
        """Create or change objects in the manifest directory."""
        return await self.changes.apply(request)


class NodeInfo(Struct, frozen=True, kw_only=True):
    """The node as clients see it."""

    name: str
    facts: NodeFacts
    clients: RuntimeClients
    viewer: NodeViewer
    reader: LocalNode

    async def node(self) -> Node:
        """Return the Node object."""
        return await self.reader.read()

    def view(self) -> NodeView:
        """Return what manifests are checked against."""
        return self.viewer.view()

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


class PresentProblems(Struct, frozen=True, kw_only=True):
    """The problems of manifests, and of a runtime that is not responding."""

    manifests: ManifestStates
    runtime_fault: Callable[[], str | None]

    def __call__(self) -> Sequence[ProblemView]:
        """Return the problems."""
        found = [
            ProblemView(subject=problem.origin, reason=Reason.FAILED_VALIDATION, message=str(problem))
            for problem in self.manifests.problems()
        ]
        fault = self.runtime_fault()
        if fault:
            found.append(ProblemView(subject="container runtime", reason=Reason.RUNTIME_NOT_READY, message=fault))
        return found
