"""Configuration of the local API server, and what it needs from others: the view of the agent, by subject."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.concurrency.watch_table import WatchTable
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck, HttpMeter
from pykubelet.kubelet.serve.common.server_types import ImageView, ManifestsView, ProblemView, PullView, VersionView
from pykubelet.kubelet.serve.streams import Streams
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.explain_views import ExplainView
from pykubelet.kubelet.types.reports.node_view import ApplyRequest, ApplyView, NodeView, ObjectView
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.models.core_v1 import ConfigMap, Event, Node, Secret


class Requests(Protocol):
    """Requests that a client may make of a pod: each is recorded, and the pod's worker acts on it."""

    async def restart(self, uid: PodUID, container: str) -> None:
        """Record that the pod, or a container of it, is to be restarted. Transient: it cannot be recorded."""

    async def retry(self, uid: PodUID) -> None:
        """Record that the pod's present back-offs are to be skipped. Transient: it cannot be recorded."""

    def stop(self, uid: PodUID, grace_seconds: int) -> None:
        """Give a pod that is being deleted this grace period. Conflict: a source still lists the pod."""


class RuntimeImages(Protocol):
    """The images of the runtime."""

    async def images(self) -> Sequence[ImageView]:
        """Return the images. Transient: the runtime is not responding."""

    async def pulls(self) -> Sequence[PullView]:
        """Return the pulls that are running; none if the runtime does not report them."""


class PodHistory(Protocol):
    """Events and timelines of pods, also of the time before the agent was started."""

    def timeline(self, uid: PodUID) -> TimelineView | None:
        """Return the pod's starts; None if none was recorded."""

    def ends(self, uid: PodUID) -> Sequence[ContainerEnd]:
        """Return the last ends of the pod's containers, the earliest first."""

    async def older_events(self, matches: Callable[[Event], bool]) -> Sequence[Event]:
        """Return the events that match and are not in the table of events any more, the oldest first."""


class LocalManifests(Protocol):
    """The manifests of this machine: what the agent has read of them, and changes of them."""

    def files(self) -> ManifestsView:
        """Return where the agent reads manifests, and what it has read from each file."""

    def objects(self) -> Sequence[ConfigMap | Secret]:
        """Return the ConfigMaps and Secrets that manifests define, with their content."""

    def object_views(self) -> Sequence[ObjectView]:
        """Return these ConfigMaps and Secrets with their keys, and the file that each comes from."""

    async def apply(self, request: ApplyRequest) -> ApplyView:
        """Create or change objects in the manifest directory, as ``pykubelet apply`` does.

        Invalid, Conflict, Permanent: the documents or the directory cannot be used. Transient: the disk is not
        responding, or the directory is locked.
        """


class NodeInfo(Protocol):
    """The node as clients see it."""

    async def node(self) -> Node:
        """Return the Node object: the API server's, or one that is made now."""

    def view(self) -> NodeView:
        """Return what manifests are checked against: the node's resources, labels and objects, and its pods."""

    def version(self) -> VersionView:
        """Return the versions of the agent and the runtime."""


class AgentView(Struct, frozen=True, kw_only=True):
    """State of other stages, and what clients may request of them."""

    images: RuntimeImages
    history: PodHistory
    manifests: LocalManifests
    node: NodeInfo
    requests: Requests
    explain: Callable[[PodUID], ExplainView | None]
    """Returns why a pod is in its state; None: it is unknown."""
    problems: Callable[[], Sequence[ProblemView]]
    """Returns present problems: unreadable manifests, an unavailable runtime."""
    configuration: Callable[[], ConfigView]
    """Returns the state of each field of the configuration."""


class EventTable(Protocol):
    """The events about pods and the node (implemented in ``report/events``)."""

    @property
    def table(self) -> WatchTable[Event]:
        """The events by ``NAMESPACE/NAME``."""

    def expire(self) -> None:
        """Remove the events that are too old to be shown."""


class LocalDeps(Struct, frozen=True, kw_only=True):
    """Everything that the local API server acts through."""

    pods: PodsView
    events: EventTable
    agent: AgentView
    streams: Streams
    checks: Mapping[str, HealthCheck]
    telemetry: Telemetry[HttpMeter]
    usage: Callable[[Seconds | None], Awaitable[Summary]]
    """Measures CPU and memory of the node and its pods; the argument is the age from which a reading is not reused."""


class LocalConfig(Struct, frozen=True):
    """Listening address, log directories and limits of the local API server."""

    socket: Path
    """Path of the socket; its directory is created with mode 0700 if missing."""
    pod_logs_dir: Path
    connections: ConnectionLimits = ConnectionLimits(total=640, untrusted=64, untrusted_per_source=64)
    slots: SlotLimits = SlotLimits(short=96, short_per_user=96, streams=448, streams_per_user=448)
