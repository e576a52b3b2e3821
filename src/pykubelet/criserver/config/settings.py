"""What can be set. Field names in the file are those of the structs."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base.units import Seconds

DEFAULT_ROOT = Path("/var/lib/pykubelet/criserver")
DEFAULT_RUN = Path("/run/pykubelet/criserver")


class CgroupManager(StrEnum):
    """Who makes cgroups: the OCI runtime by itself, or systemd for it."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class Handler(Struct, frozen=True, forbid_unknown_fields=True):
    """An OCI runtime that a RuntimeClass may name."""

    path: str
    """The program, absolute or found on PATH."""


class CniSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where networks are configured and where plugins lie."""

    conf_dir: Path = Path("/etc/cni/net.d")
    bin_dirs: tuple[Path, ...] = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    default_network: bool = True
    """Write a bridge network when there is none."""
    default_bridge: str = "pyk0"
    default_subnet: str = "10.88.0.0/16"
    pod_addresses: bool = False
    """Let pods choose their addresses by the annotations ``cni.pykubelet/ips`` and ``cni.pykubelet/mac``, where the
    network's configuration has these capabilities. A pod can then take the address of another one of its network."""
    timeout: Seconds = 60.0
    """For one plugin."""


class RegistryHost(Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach one registry, or one mirror of others, by its ``host[:port]``."""

    mirrors: tuple[str, ...] = ()
    """Base URLs asked first, in this order."""
    plain_http: bool = False
    ca: str = ""
    """File of authorities (PEM) that its certificate is checked against, instead of the system's."""
    client_certificate: str = ""
    client_key: str = ""
    skip_verify: bool = False
    """Take any certificate: whoever sits between can then change what is pulled by tag."""
    username: str = ""
    """For pulls that bring no credentials for this host."""
    password: str = ""

    def __repr__(self) -> str:
        return f"RegistryHost({', '.join(self.mirrors)})"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything the server can be told."""

    root: Path = DEFAULT_ROOT
    """Records, images and layers; must survive a reboot."""
    run: Path = DEFAULT_RUN
    """Sockets, namespaces, bundles; may be a tmpfs."""
    listen: Path | None = None
    """The CRI socket; by default ``criserver.sock`` in ``run``."""
    default_handler: str = "runc"
    handlers: dict[str, Handler] = field(default_factory=lambda: {"runc": Handler("runc"), "crun": Handler("crun")})
    conmon: str = "conmon"
    infra: str = "catatonit"
    """Program that holds a shared PID namespace open, where no image does; must be static."""
    pause_image: str = ""
    """Image whose program holds a shared PID namespace open (containerd's ``sandbox_image``): it must reap orphans and
    end on SIGTERM. Pulled when it is first needed, and never removed by a kubelet's garbage collection."""
    cgroup_manager: CgroupManager = CgroupManager.CGROUPFS
    seccomp_root: Path = Path("/var/lib/kubelet/seccomp")
    cdi_dirs: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    """Files of the Container Device Interface; a later directory counts for more."""
    cni: CniSettings = CniSettings()
    registries: dict[str, RegistryHost] = field(default_factory=dict)
    registries_file: Path = Path("/etc/pykubelet/registries.toml")
    """More of them, in a file that is read anew when it has changed; need not exist."""
    pinned_images: tuple[str, ...] = ()
    """References of images that no kubelet's garbage collection may remove."""

    @property
    def socket(self) -> Path:
        return self.listen or self.run / "criserver.sock"

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def root_filesystems(self) -> Path:
        """A directory for each container's root file system."""
        return self.root / "storage" / "containers"

    @property
    def attachments(self) -> Path:
        """What is attached to a network, a file each."""
        return self.root / "network"

    @property
    def bundles(self) -> Path:
        """A directory for each container: config.json, conmon's sockets and files."""
        return self.run / "bundles"

    @property
    def sandboxes(self) -> Path:
        """A directory for each sandbox: its files and its /dev/shm."""
        return self.run / "sandboxes"

    @property
    def namespaces(self) -> Path:
        return self.run / "ns"

    @property
    def exits(self) -> Path:
        """Where conmon writes exit codes."""
        return self.run / "exits"

    @property
    def mapped(self) -> Path:
        """Mounts of volumes with the ids of user namespaces."""
        return self.run / "mapped"

    @property
    def scratch(self) -> Path:
        """Files of single calls; emptied at each start."""
        return self.run / "tmp"

    def runtime_root(self, handler: str) -> Path:
        """Where the OCI runtime of a handler keeps its state."""
        return self.run / "oci" / handler
