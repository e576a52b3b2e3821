"""The agent's settings: the configuration, the flags and facts of the machine in one frozen value."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base.units import parse_duration
from pykubelet.kubelet.config.credential_providers import CredentialProviders
from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

DEFAULT_ROOT = Path("/var/lib/pykubelet")
DEFAULT_RUN = Path("/run/pykubelet")
DEFAULT_PARALLEL_PULLS = 5


class ClusterSettings(Struct, frozen=True):
    """Settings of node mode, in which the agent is a node of a cluster."""

    kubeconfig: Path
    """The agent's kubeconfig; the agent writes it itself if there is a bootstrap kubeconfig."""
    bootstrap_kubeconfig: Path | None = None
    cert_dir: Path = DEFAULT_ROOT / "pki"
    node_labels: Mapping[str, str] = field(default_factory=dict)
    provider_id: str = ""
    external_cloud: bool = False
    """A cloud controller initializes the node: it removes a taint and sets the addresses."""


class Settings(Struct, frozen=True):
    """All settings of an agent, constant while it runs. Paths are absolute."""

    node_name: str
    config: KubeletConfiguration
    runtime_endpoint: str
    image_endpoint: str = ""
    """Empty: the same as ``runtime_endpoint``."""
    root_dir: Path = DEFAULT_ROOT
    """Directory of volumes, pod directories and the agent's own state."""
    run_dir: Path = DEFAULT_RUN
    """Directory of the local socket."""
    container_log_dir: Path = Path("/var/log/containers")
    """Directory of links to the containers' log files, with the names that log collectors expect."""
    node_ips: tuple[str, ...] = ()
    """The node's own addresses at the start, primary first; empty: none yet."""
    given_ips: tuple[str, ...] = ()
    """The addresses of ``--node-ip``; ``0.0.0.0`` and ``::`` only select the preferred family."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The command line's flags and their values, for /flagz."""
    cluster: ClusterSettings | None = None
    """None: standalone mode, only manifests."""
    credential_providers: CredentialProviders | None = None
    """None: no plugins for registry credentials."""

    @property
    def pod_log_dir(self) -> Path:
        return Path(self.config.pod_logs_dir)

    @property
    def socket(self) -> Path:
        """The agent's local socket, to which the command line connects."""
        return self.run_dir / "agent.sock"

    @property
    def parallel_pulls(self) -> int:
        """Maximum number of concurrent image pulls; 1 with ``serializeImagePulls: true``."""
        if self.config.serialize_image_pulls:
            return 1
        return self.config.max_parallel_image_pulls or DEFAULT_PARALLEL_PULLS

    def seconds(self, duration: str) -> float:
        """Convert a duration of the configuration, which was validated when it was loaded, to seconds."""
        return parse_duration(duration)
