"""What the node's server needs of others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.nodeserver.types import AuthConfig, CertFiles, TlsConfig
from pykubelet.kubelet.report.server.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.report.server.pods_view import PodsView
from pykubelet.kubelet.report.server.ports import HealthCheck, HttpMeter, Streams
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.stats import Summary
from pykubelet.kubelet.types.usage import Readings
from pykubelet.models.authentication_v1 import TokenReview
from pykubelet.models.authorization_v1 import SubjectAccessReview
from pykubelet.models.core_v1 import Pod


class ReviewApi(Protocol):
    """Two calls of the API server. Raise the errors of ``base.errors``; Transient ones are tried again."""

    async def create_token_review(self, review: TokenReview) -> TokenReview:
        """Whose token it is."""

    async def create_subject_access_review(self, review: SubjectAccessReview) -> SubjectAccessReview:
        """Whether somebody may do something."""


class NodeRuntime(Streams, Protocol):
    """The container runtime, as far as the server reaches it. All raise the errors of ``base.errors``."""

    async def run(self, container: ContainerID, command: Sequence[str]) -> tuple[int, bytes]:
        """The exit code and the output of a command."""

    async def checkpoint(self, container: ContainerID, archive: Path, timeout: Seconds) -> None:
        """Write the container's state into an archive; Unsupported by most runtimes."""

    async def running_pods(self) -> Sequence[Pod]:
        """What runs, by the runtime alone: names, uids, container names and images."""


class StatsSource(Protocol):
    """Usage figures, measured when they are asked for."""

    async def summary(self, *, only_cpu_and_memory: bool = False) -> Summary:
        """The Summary API's answer."""

    async def readings(self, *, full: bool = True) -> Readings:
        """Every cgroup; ``full`` with limits, I/O, processes and file systems."""


class OwnMetrics(Protocol):
    """The agent's own metrics."""

    def render(self) -> bytes:
        """The text of /metrics."""

    def render_probes(self) -> bytes:
        """The text of /metrics/probes."""

    def websocket_streamed(self, subresource: str) -> None:
        """An exec, attach or port-forward came over a WebSocket of the newest protocol."""


@dataclass(frozen=True, slots=True)
class NodeServerConfig:
    """Where the server listens and what it offers; names and defaults of KubeletConfiguration."""

    node_name: str
    address: str = "0.0.0.0"
    port: int = 10250
    read_only_port: int = 0
    """Plain HTTP, without authentication, for reading only; 0: off."""
    addresses: tuple[str, ...] = ()
    """The node's own, for the certificate that it signs itself where it is given none."""
    pki_dir: Path = Path("/var/lib/pykubelet/pki")
    tls: TlsConfig = field(default_factory=TlsConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    pod_logs_dir: Path = Path("/var/log/pods")
    node_logs_dir: Path = Path("/var/log")
    checkpoints_dir: Path = Path("/var/lib/pykubelet/checkpoints")
    debugging_handlers: bool = True
    """Logs, exec, attach, port-forward and run; without: 405."""
    system_log_handler: bool = True
    """Files below ``node_logs_dir``."""
    system_log_query: bool = False
    """Queries for the logs of services there, and in the journal."""
    profiling_handler: bool = True
    debug_flags_handler: bool = True
    connections: ConnectionLimits = ConnectionLimits(total=512, strangers=128, strangers_per_source=96)
    slots: SlotLimits = SlotLimits(short=96, short_per_user=64, streams=256, streams_per_user=224)
    """Fewer in all than the connections beside strangers, so that a proven client can always open one more."""


@dataclass(frozen=True, slots=True)
class NodeServerDeps:
    """All that the server acts through."""

    pods: PodsView
    runtime: NodeRuntime
    stats: StatsSource
    metrics: OwnMetrics
    meter: HttpMeter
    checks: Mapping[str, HealthCheck]
    configuration: Callable[[], Mapping[str, object]]
    """The KubeletConfiguration in force, as plain values."""
    flags: Callable[[], Mapping[str, str]]
    """The command line's, with their defaults."""
    certificate: Callable[[], CertFiles | None]
    """The files of the serving certificate now, asked at each connection; None: there is none (yet)."""
    reviews: ReviewApi | None
    """None: no API server."""
    clock: Clock
