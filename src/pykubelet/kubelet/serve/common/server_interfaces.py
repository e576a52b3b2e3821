"""Configurations of the local API and health servers, and the interfaces that they need from others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.concurrency.watch_table import WatchTable
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_types import (
    ImageView,
    ManifestsView,
    ProblemView,
    PullView,
    StreamOptions,
    VersionView,
)
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.explain_views import ExplainView
from pykubelet.kubelet.types.reports.node_view import ApplyRequest, ApplyView, NodeView, ObjectView
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.models.core_v1 import ConfigMap, Event, Node, Secret

HealthCheck = Callable[[], str | None]
"""Returns the reason of a failure; None: healthy."""


class Requests(Protocol):
    """Requests that a client may make of a pod: each is recorded, and the pod's worker acts on it."""

    async def restart(self, uid: PodUID, container: str) -> None:
        """Record that the pod, or a container of it, is to be restarted. Transient: it cannot be recorded."""

    async def retry(self, uid: PodUID) -> None:
        """Record that the pod's present back-offs are to be skipped. Transient: it cannot be recorded."""

    def stop(self, uid: PodUID, grace_seconds: int) -> None:
        """Give a pod that is being deleted this grace period. Conflict: a source still lists the pod."""


class AgentView(Protocol):
    """State of other stages, for the agent's own paths (``/pykubelet/v1``)."""

    async def images(self) -> Sequence[ImageView]:
        """Return the images of the runtime. Transient: the runtime is not responding."""

    async def pulls(self) -> Sequence[PullView]:
        """Return the pulls that are running; none if the runtime does not report them."""

    def problems(self) -> Sequence[ProblemView]:
        """Return present problems: unreadable manifests, pods that cannot start, an unavailable runtime."""

    @property
    def configuration(self) -> Callable[[], ConfigView]:
        """The function that returns the state of each field of the configuration."""

    @property
    def explain(self) -> Callable[[PodUID], ExplainView | None]:
        """The function that returns why a pod is in its state; None: it is unknown."""

    @property
    def apply(self) -> Callable[[ApplyRequest], Awaitable[ApplyView]]:
        """The function that creates or changes objects in the manifest directory, as ``pykubelet apply`` does.

        Invalid, Conflict, Permanent: the documents or the directory cannot be used. Transient: the disk is not
        responding, or the directory is locked.
        """

    def timeline(self, uid: PodUID) -> TimelineView | None:
        """Return the pod's starts; None if none was recorded."""

    def ends(self, uid: PodUID) -> Sequence[ContainerEnd]:
        """Return the last ends of the pod's containers, the earliest first."""

    async def older_events(self, matches: Callable[[Event], bool]) -> Sequence[Event]:
        """Return the events that match and are not in the table of events any more, the oldest first."""

    def objects(self) -> Sequence[ObjectView]:
        """Return the ConfigMaps and Secrets that manifests define."""

    def manifest_files(self) -> ManifestsView:
        """Return where the agent reads manifests, and what it has read from each file."""

    def node_view(self) -> NodeView:
        """Return what manifests are checked against: the node's resources, labels and objects, and its pods."""

    def manifest_objects(self) -> Sequence[ConfigMap | Secret]:
        """Return these ConfigMaps and Secrets with their content."""

    async def node(self) -> Node:
        """Return the Node object: the API server's, or one that is made now."""

    @property
    def requests(self) -> Requests:
        """Requests that a client may make of a pod."""

    def version(self) -> VersionView:
        """Return the versions of the agent and the runtime."""


class EventTable(Protocol):
    """The events about pods and the node (implemented in ``report/events``)."""

    @property
    def table(self) -> WatchTable[Event]:
        """The events by ``NAMESPACE/NAME``."""

    def expire(self) -> None:
        """Remove the events that are too old to be shown."""


class Streams(Protocol):
    """The runtime's streaming server. All methods raise the errors of ``base.errors``."""

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that runs the command when a client connects."""

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that attaches to the container's first process."""

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        """Return a one-time URL that forwards to ports of the pod. NotFound: the pod has no running sandbox.

        ``ports`` is for clients whose protocol cannot name ports.
        """


class HttpMeter(Protocol):
    """Measures HTTP requests (implemented in ``report/metrics``)."""

    def http_request(
        self, method: str, path: str, server_type: str, *, long_running: bool = False
    ) -> AbstractContextManager[None]:
        """Measure a request that is served within the block."""

    def http_connection_closed(self, server_type: str, reason: str) -> None:
        """Count a connection that a server closed or rejected to keep its limits."""


class LocalDeps(Struct, frozen=True, kw_only=True):
    """Everything that the local API server acts through."""

    pods: PodsView
    events: EventTable
    node: AgentView
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


class HealthDeps(Struct, frozen=True, kw_only=True):
    """Everything that the health server acts through."""

    checks: Mapping[str, HealthCheck]
    render_metrics: Callable[[], bytes]
    render_probe_metrics: Callable[[], bytes]
    telemetry: Telemetry[HttpMeter]


class HealthConfig(Struct, frozen=True):
    """Listening address (``healthzBindAddress``, ``healthzPort``) and limits of the health server."""

    address: str = "127.0.0.1"
    port: int = 10248
    connections: ConnectionLimits = ConnectionLimits(
        total=128, untrusted=64, untrusted_per_source=64, first_request=10.0
    )
    slots: SlotLimits = SlotLimits(short=32, short_per_user=32, streams=0, streams_per_user=0, deadline=10.0)
