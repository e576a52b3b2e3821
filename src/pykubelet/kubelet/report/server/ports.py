"""What the servers need of others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.server.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.report.server.pods_view import PodsView
from pykubelet.kubelet.report.server.types import (
    ImageView,
    JournalView,
    ObjectView,
    ProblemView,
    StreamOptions,
    VersionView,
)
from pykubelet.kubelet.report.timeline import TimelineView
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.stats import Summary

HealthCheck = Callable[[], str | None]
"""Gives what is wrong, or None."""


class Node(Protocol):
    """What the other stages know, for the agent's own paths."""

    async def images(self) -> Sequence[ImageView]:
        """Images of the runtime; raises Transient when it does not answer."""

    def problems(self) -> Sequence[ProblemView]:
        """What is wrong now: manifests that could not be read, pods that cannot start, a runtime that is away."""

    def journal(self, uid: PodUID) -> Sequence[JournalView]:
        """Decisions about a pod, oldest first."""

    def timeline(self, uid: PodUID) -> TimelineView | None:
        """The pod's starts; None if none was seen."""

    def objects(self) -> Sequence[ObjectView]:
        """ConfigMaps and Secrets that manifests define."""

    def version(self) -> VersionView:
        """Who is running."""


class Streams(Protocol):
    """The runtime's streaming server. All raise the errors of ``base.errors``."""

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        """A one-time URL that runs the command when it is connected to."""

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        """A one-time URL that is connected to the container's first process."""

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        """A one-time URL that leads to ports of the pod; ``ports`` for clients that cannot name them themselves.
        NotFound: the pod has no sandbox that runs."""


class HttpMeter(Protocol):
    """Measures requests (report/metrics)."""

    def http_request(
        self, method: str, path: str, server_type: str, *, long_running: bool = False
    ) -> AbstractContextManager[None]:
        """A request is served within the block."""

    def http_connection_closed(self, server_type: str, reason: str) -> None:
        """A server closed a connection, or did not take it, to keep its limits."""


@dataclass(frozen=True, slots=True)
class LocalDeps:
    """All that the local API server acts through."""

    pods: PodsView
    events: EventLog
    node: Node
    streams: Streams
    checks: Mapping[str, HealthCheck]
    meter: HttpMeter
    clock: Clock
    usage: Callable[[], Awaitable[Summary]]
    """CPU and memory of the node and its pods, measured now."""


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """Where the local API server listens and reads."""

    socket: Path
    """Its directory is made with mode 0700 if it is not there."""
    pod_logs_dir: Path
    connections: ConnectionLimits = ConnectionLimits(total=640, strangers=64, strangers_per_source=64)
    slots: SlotLimits = SlotLimits(short=96, short_per_user=96, streams=448, streams_per_user=448)


@dataclass(frozen=True, slots=True)
class HealthDeps:
    """All that the health server acts through."""

    checks: Mapping[str, HealthCheck]
    render_metrics: Callable[[], bytes]
    render_probe_metrics: Callable[[], bytes]
    meter: HttpMeter
    clock: Clock


@dataclass(frozen=True, slots=True)
class HealthConfig:
    """Where the health server listens (``healthzBindAddress``, ``healthzPort``)."""

    address: str = "127.0.0.1"
    port: int = 10248
    connections: ConnectionLimits = ConnectionLimits(
        total=128, strangers=64, strangers_per_source=64, first_request=10.0
    )
    slots: SlotLimits = SlotLimits(short=32, short_per_user=32, streams=0, streams_per_user=0, deadline=10.0)
