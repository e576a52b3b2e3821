"""Configuration of the kubelet API server, and the interfaces that it needs from others."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.limits import ConnectionLimits, SlotLimits
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_interfaces import HealthCheck, HttpMeter
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import AuthConfig, CertFiles, TlsConfig
from pykubelet.kubelet.serve.streams import Streams
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.resources.stats import Summary
from pykubelet.kubelet.types.resources.usage import Readings
from pykubelet.models.authentication_v1 import TokenReview
from pykubelet.models.authorization_v1 import SubjectAccessReview
from pykubelet.models.core_v1 import Pod


class ReviewApi(Protocol):
    """Review calls of the API server. Raise the errors of ``base.errors``; Transient ones are retried."""

    async def create_token_review(self, review: TokenReview) -> TokenReview:
        """Ask which user a token belongs to."""

    async def create_subject_access_review(self, review: SubjectAccessReview) -> SubjectAccessReview:
        """Ask whether a user may perform an action."""


class NodeRuntime(Streams, Protocol):
    """The container runtime, as far as this server uses it. All methods raise the errors of ``base.errors``."""

    async def run(self, container: ContainerID, command: Sequence[str]) -> tuple[int, bytes]:
        """Run a command; return its exit code and output."""

    async def checkpoint(self, container: ContainerID, archive: Path, timeout: Seconds) -> None:
        """Write a checkpoint of the container into an archive; most runtimes raise Unsupported."""

    async def running_pods(self) -> Sequence[Pod]:
        """Return the running pods as only the runtime knows them: names, uids, container names and images."""


class StatsSource(Protocol):
    """Usage figures, measured at each call."""

    async def summary(self, *, only_cpu_and_memory: bool = False, rates: bool = True) -> Summary:
        """Return the answer of the Summary API; without ``rates``, CPU usage may be missing, which saves time."""

    async def readings(self, *, full: bool = True) -> Readings:
        """Return the usage of every cgroup; ``full`` adds limits, I/O, processes and file systems."""


class UsageTexts(Protocol):
    """Renders measurements in Prometheus' text format (implemented in ``report/metrics``)."""

    def cadvisor(self, readings: Readings) -> bytes:
        """Return the text of /metrics/cadvisor. Takes a while for many containers: call it in a thread."""

    def resource(self, readings: Readings | None) -> bytes:
        """Return the text of /metrics/resource; None: the readings could not be taken."""

    def disks(self, summary: Summary) -> bytes:
        """Return the series of /metrics about container logs and volumes."""


class StreamMeter(HttpMeter, Protocol):
    """The metrics of this server."""

    def websocket_streamed(self, subresource: str) -> None:
        """Count an exec, attach or port-forward over a WebSocket of the newest protocol."""


class AgentMetrics(Protocol):
    """The agent's own metrics."""

    @property
    def http(self) -> StreamMeter:
        """The metrics of this server."""

    def render(self) -> bytes:
        """Return the text of /metrics."""

    @property
    def usage_texts(self) -> UsageTexts:
        """The texts that are measured at the scrape."""

    def render_probes(self) -> bytes:
        """Return the text of /metrics/probes."""


class KubeletApiServerConfig(Struct, frozen=True):
    """Listening address and content of the server; names and defaults are those of KubeletConfiguration."""

    node_name: str
    address: str = "0.0.0.0"
    port: int = 10250
    read_only_port: int = 0
    """Plain HTTP without authentication, for reading only; 0: off."""
    addresses: tuple[str, ...] = ()
    """The node's addresses, for the self-signed certificate that is used where no other is configured."""
    pki_dir: Path = Path("/var/lib/pykubelet/pki")
    tls: TlsConfig = field(default_factory=TlsConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    pod_logs_dir: Path = Path("/var/log/pods")
    node_logs_dir: Path = Path("/var/log")
    checkpoints_dir: Path = Path("/var/lib/pykubelet/checkpoints")
    debugging_handlers: bool = True
    """Serve logs, exec, attach, port-forward and run; if False they answer 405."""
    system_log_handler: bool = True
    """Serve files below ``node_logs_dir``."""
    system_log_query: bool = False
    """Serve queries for the logs of services, from that directory and the journal."""
    profiling_handler: bool = True
    debug_flags_handler: bool = True
    connections: ConnectionLimits = ConnectionLimits(total=512, untrusted=128, untrusted_per_source=96)
    slots: SlotLimits = SlotLimits(short=96, short_per_user=64, streams=256, streams_per_user=224)
    """Fewer streams in total than trusted connections, so that a trusted client can always open one more."""


class EffectiveConfig(Struct, frozen=True, kw_only=True):
    """The configuration that the server shows."""

    configuration: Callable[[], Mapping[str, object]]
    """Returns the KubeletConfiguration in force, as plain values; called at each request, since it is seldom needed."""
    flags: Mapping[str, str]
    """The command line flags, with their defaults."""


class KubeletApiServerDeps(Struct, frozen=True, kw_only=True):
    """Everything that the server acts through."""

    pods: PodsView
    runtime: NodeRuntime
    stats: StatsSource
    checks: Mapping[str, HealthCheck]
    effective: EffectiveConfig
    certificate: Callable[[], CertFiles | None]
    """Returns the serving certificate's files, called for each connection; None: there is none (yet)."""
    reviews: ReviewApi | None
    """None: there is no API server."""
    telemetry: Telemetry[AgentMetrics]
