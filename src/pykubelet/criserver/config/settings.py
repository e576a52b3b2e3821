"""The settings of the runtime server. The fields of the configuration file have the names of the structs' fields."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from pykubelet.base.units import Seconds

DEFAULT_ROOT = Path("/var/lib/pykubelet/criserver")
DEFAULT_RUN = Path("/run/pykubelet/criserver")
NETNS_DIR = Path("/run/netns")
"""The directory where ip-netns(8) and other runtimes pin network namespaces."""


class CgroupManager(StrEnum):
    """The creator of cgroups: the OCI runtime itself, or systemd on its behalf."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class HandlerType(StrEnum):
    """The kind of a handler's program."""

    OCI = "oci"
    """An OCI runtime, which conmon calls."""
    SHIM = "shim"
    """A shim with containerd's task API."""


class Handler(Struct, frozen=True, forbid_unknown_fields=True):
    """A runtime that a RuntimeClass may name."""

    path: str
    """The program, absolute or found on PATH; of a shim also its type in containerd (``io.containerd.kata.v2``)."""
    type: HandlerType = HandlerType.OCI
    options: dict[str, str | bool] = field(default_factory=dict)
    """Options of a shim, by the names of containerd's configuration: ``BinaryName``, ``SystemdCgroup``,
    ``NoNewKeyring`` and ``NoPivotRoot`` of containerd-shim-runc-v2; ``TypeUrl`` and ``ConfigPath`` of others."""
    pod_annotations: tuple[str, ...] = ()
    """Patterns, as of Go's path.Match, of annotations of pods that the OCI runtime gets in the containers' specs."""
    container_annotations: tuple[str, ...] = ()
    """The same for annotations of containers, which device plugins set."""
    privileged_without_host_devices: bool = False
    """Privileged containers get no devices of the host but those that they request."""
    privileged_without_host_devices_all_devices_allowed: bool = False
    """With ``privileged_without_host_devices``: they may nevertheless create and use all device nodes."""
    cgroup_writable: bool = False
    """Containers that are not privileged may write to their cgroup, too."""
    base_runtime_spec: Path | None = None
    """A JSON file: an OCI specification with what the containers get in addition (rlimits, hooks, mounts, …)."""
    cni_conf_dir: Path | None = None
    """The directory of network configurations for pods of this handler."""
    cni_max_conf_num: int = 0
    """Number of the first valid configurations in ``cni_conf_dir`` that each pod gets, as eth0, eth1 and so on; 0: as
    many as ``cni.max_conf_num`` says."""
    sandbox_annotations: bool | None = None
    """Whether specs have the annotations ``container-type`` and ``sandbox-id`` of containerd; by default those of runc
    and crun, and shims. runsc understands them as an order to join a sandbox, which does not exist here."""


class CniSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The directories of network configurations and CNI plugins, and the default network."""

    conf_dir: Path = Path("/etc/cni/net.d")
    bin_dirs: tuple[Path, ...] = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    max_conf_num: int = 1
    """Number of the first valid configurations in ``conf_dir`` that each pod gets, as eth0, eth1 and so on; 0: all."""
    default_network: bool = True
    """Write the configuration of a bridge network if there is no network configuration."""
    default_bridge: str = "pyk0"
    default_subnet: str = "10.87.0.0/16"
    """Not the range of another program: podman has 10.88.0.0/16 and those after it, CRI-O 10.85.0.0/16. Of two bridges
    with one range, the machine reaches the pods of one only."""
    pod_addresses: bool = False
    """Let pods choose their addresses by the annotations ``cni.pykubelet/ips`` and ``cni.pykubelet/mac``, where the
    network's configuration has these capabilities. A pod can then take the address of another one of its network."""
    collect_garbage: bool = False
    """Tell the plugins of networks of CNI 1.1 hourly which attachments are in use. They release all others, also those
    of another runtime that uses the same network."""
    timeout: Seconds = 60.0
    """Time limit of one plugin call."""


class RegistryHost(Struct, frozen=True, forbid_unknown_fields=True):
    """Access to one registry, or to one mirror of others, by its ``host[:port]``."""

    mirrors: tuple[str, ...] = ()
    """Base URLs that are tried first, in this order."""
    plain_http: bool = False
    ca: str = ""
    """PEM file of the authorities that verify its certificate, instead of the system's."""
    client_certificate: str = ""
    client_key: str = ""
    skip_verify: bool = False
    """Accept any certificate: an attacker on the network path can then change images that are pulled by tag."""
    username: str = ""
    """User name for pulls without credentials for this host."""
    password: str = ""

    def __repr__(self) -> str:
        return f"RegistryHost({', '.join(self.mirrors)})"


class Tracing(Struct, frozen=True, forbid_unknown_fields=True):
    """Spans for an OpenTelemetry collector; needs the extra ``tracing``."""

    endpoint: str = ""
    """``HOST:PORT`` or ``unix:///PATH`` of a collector that takes OTLP over gRPC without TLS; empty: no spans."""
    sampling_ratio: float = 0.0
    """Share of the calls, 0 to 1, that are recorded though their client records no trace. The calls of a client that
    does are always recorded."""

    @property
    def per_million(self) -> int:
        return round(self.sampling_ratio * 1_000_000)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of the runtime server."""

    root: Path = DEFAULT_ROOT
    """Records, images and layers; must survive a reboot."""
    run: Path = DEFAULT_RUN
    """Sockets, namespaces, bundles; may be a tmpfs."""
    netns_dir: Path | None = None
    """Directory in which network namespaces are pinned, where the agents of CNI plugins find them; by default
    ``/run/netns``, or ``netns`` in a ``run`` that is not below ``/run``."""
    listen: Path | None = None
    """The CRI socket; by default ``criserver.sock`` in ``run``."""
    default_handler: str = "runc"
    handlers: dict[str, Handler] = field(default_factory=lambda: {"runc": Handler("runc"), "crun": Handler("crun")})
    conmon: str = "conmon"
    infra: str = "catatonit"
    """Program that holds a shared PID namespace open if there is no ``pause_image``; it must be static."""
    pause_image: str = ""
    """Image whose program holds a shared PID namespace open (containerd's ``sandbox_image``). The program must reap
    orphans and exit on SIGTERM. The image is pulled at its first use, and never removed by a kubelet's garbage
    collection."""
    cgroup_manager: CgroupManager = CgroupManager.CGROUPFS
    device_ownership_from_security_context: bool = False
    """Requested devices belong to the user and group of the container's security context, not to those of the host."""
    enable_selinux: bool = True
    """If SELinux is enabled on the machine, pods get levels of their own, and their files labels."""
    seccomp_root: Path = Path("/var/lib/kubelet/seccomp")
    blockio_config_file: Path | None = None
    """A file with classes of block I/O, in the format of goresctrl as for containerd; it is read when it is used."""
    ignore_blockio_not_enabled_errors: bool = False
    """Without that file, classes that annotations give to containers are ignored instead of refused."""
    ignore_rdt_not_enabled_errors: bool = False
    """Classes of Intel RDT are ignored instead of refused if /sys/fs/resctrl is not mounted."""
    enable_experimental_restore_via_create: bool = False
    """Containers may be created from checkpoint archives and images. Their authors can gain root on the node."""
    cdi_dirs: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    """Directories of Container Device Interface files; a later directory takes precedence."""
    cni: CniSettings = CniSettings()
    registries: dict[str, RegistryHost] = field(default_factory=dict)
    registries_file: Path = Path("/etc/pykubelet/registries.toml")
    """A file with further registries, which is read again when it has changed; it need not exist."""
    registry_dirs: tuple[Path, ...] = (Path("/etc/pykubelet/certs.d"), Path("/etc/containerd/certs.d"))
    """Directories with a directory for each registry, which has a hosts.toml or certificates, as containerd's and
    Docker's ``certs.d``. They are read at each pull of a registry that the other settings do not describe."""
    pull_bandwidth: int = 0
    """Bytes per second that all pulls together may receive of layers; 0: no limit."""
    image_policy_file: Path = Path("/etc/pykubelet/image-policy.toml")
    """A file that says which images may be used, and whose signatures they need. It is read again when it has changed;
    without it all images are allowed."""
    metrics_address: str = ""
    """The address of ``/metrics``: a port of a loopback address (``127.0.0.1:9412``), or the path of a unix socket,
    for root only; empty: it is not served."""
    tracing: Tracing = Tracing()
    pinned_images: tuple[str, ...] = ()
    """References of images that a kubelet's garbage collection must not remove."""

    @property
    def socket(self) -> Path:
        return self.listen or self.run / "criserver.sock"

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def root_filesystems(self) -> Path:
        """The directory with one directory for each container's root file system."""
        return self.root / "storage" / "containers"

    @property
    def attachments(self) -> Path:
        """The directory with one file for each sandbox that is attached to a network."""
        return self.root / "network"

    @property
    def bundles(self) -> Path:
        """The directory with one directory for each container: config.json, conmon's sockets and files."""
        return self.run / "bundles"

    @property
    def sandboxes(self) -> Path:
        """The directory with one directory for each sandbox: its files and its /dev/shm."""
        return self.run / "sandboxes"

    @property
    def namespaces(self) -> Path:
        """The directory with one directory for each sandbox: the files to which its namespaces are pinned."""
        return self.run / "ns"

    @property
    def network_namespaces(self) -> Path:
        """The directory in which network namespaces are pinned."""
        if self.netns_dir is not None:
            return self.netns_dir
        of_system = any(self.run.is_relative_to(top) for top in ("/run", "/var/run"))
        return NETNS_DIR if of_system else self.run / "netns"

    @property
    def exits(self) -> Path:
        """The directory in which conmon writes exit codes."""
        return self.run / "exits"

    @property
    def mapped(self) -> Path:
        """The directory of volume mounts with the ids of user namespaces."""
        return self.run / "mapped"

    @property
    def scratch(self) -> Path:
        """The directory of temporary files of single calls; emptied at each start."""
        return self.run / "tmp"

    @property
    def shim_events(self) -> Path:
        """The socket to which shims send events."""
        return self.run / "shims.sock"

    def requires(self, handler: str) -> bool:
        """Whether the server cannot work without a handler: the one of all pods that name none."""
        return handler == self.default_handler

    def runtime_root(self, handler: str) -> Path:
        """The directory in which the OCI runtime of a handler keeps its state, or the tasks of its shims are."""
        return self.runtime_roots / handler

    @property
    def runtime_roots(self) -> Path:
        """The directory with one directory for each handler."""
        return self.run / "oci"
