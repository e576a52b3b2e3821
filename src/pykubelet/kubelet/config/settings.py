"""What the agent runs with: the configuration file, the flags and the machine, settled into one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.kubelet.config.duration import parse_duration
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

DEFAULT_ROOT = Path("/var/lib/pykubelet")
DEFAULT_RUN = Path("/run/pykubelet")
DEFAULT_PARALLEL_PULLS = 5


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How the agent is a node of a cluster."""

    kubeconfig: Path
    """Who we are to the API server; written by the agent itself if there is a bootstrap kubeconfig."""
    bootstrap_kubeconfig: Path | None = None
    cert_dir: Path = DEFAULT_ROOT / "pki"
    node_labels: Mapping[str, str] = field(default_factory=dict)
    provider_id: str = ""
    external_cloud: bool = False
    """A controller of the cloud takes the node into service: it removes a taint and gives the addresses."""
    given_ips: tuple[str, ...] = ()
    """The addresses of ``--node-ip``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is settled before the agent starts. Paths are absolute."""

    node_name: str
    config: KubeletConfiguration
    runtime_endpoint: str
    image_endpoint: str = ""
    """Empty: the same as ``runtime_endpoint``."""
    root_dir: Path = DEFAULT_ROOT
    """Volumes, pod directories and the agent's own state."""
    run_dir: Path = DEFAULT_RUN
    """The local socket."""
    container_log_dir: Path = Path("/var/log/containers")
    """Links to the containers' log files, by the names that log collectors know."""
    node_ips: tuple[str, ...] = ()
    """The node's own addresses, primary first."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The command line's flags and their values, to be shown."""
    cluster: ClusterSettings | None = None
    """None: no API server, only manifests."""

    @property
    def pod_log_dir(self) -> Path:
        return Path(self.config.pod_logs_dir)

    @property
    def socket(self) -> Path:
        """The agent's local socket, which the command line talks to."""
        return self.run_dir / "agent.sock"

    @property
    def parallel_pulls(self) -> int:
        """How many images are pulled at once; one only if the configuration says ``serializeImagePulls: true``."""
        if self.config.serialize_image_pulls:
            return 1
        return self.config.max_parallel_image_pulls or DEFAULT_PARALLEL_PULLS

    def seconds(self, duration: str) -> float:
        """Seconds of one of the configuration's durations, which have been checked when it was loaded."""
        return parse_duration(duration)
