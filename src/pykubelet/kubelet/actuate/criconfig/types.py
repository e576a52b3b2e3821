"""What the builders of CRI messages need to know, as frozen values, and the error they raise.

The pod runtime gathers these facts (they need I/O); the builders only compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.criconfig.ports import ConfigReader
from pykubelet.kubelet.actuate.criconfig.sysctls import SysctlAllowlist
from pykubelet.kubelet.actuate.resources.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.types import HostMount, ImageFacts
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity


class ConfigReason(StrEnum):
    """Why a pod or container cannot be described to the runtime (the reference's names)."""

    CREATE_CONTAINER_CONFIG = "CreateContainerConfigError"
    """Waiting reason of a container."""
    CREATE_POD_SANDBOX = "CreatePodSandboxError"
    SYSCTL_FORBIDDEN = "SysctlForbidden"
    """Reason of a rejected pod."""


class ConfigError(PykubeletError):
    """A pod or container asks for something that cannot be given; `message` is for its owner.

    What is missing (a ConfigMap, a key) may appear, so another try later makes sense.
    """

    def __init__(self, reason: ConfigReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def container_error(message: str) -> ConfigError:
    """The error of a container whose configuration cannot be made."""
    return ConfigError(ConfigReason.CREATE_CONTAINER_CONFIG, message)


def describe(pod: Pod) -> str:
    """The pod in messages: ``NAME_NAMESPACE(UID)``, as the reference writes it."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


@dataclass(frozen=True, slots=True)
class IdMapping:
    """A range of ids of a user namespace."""

    host_id: int
    container_id: int
    length: int


@dataclass(frozen=True, slots=True)
class UserNamespace:
    """The ids which a pod with ``hostUsers: false`` was given."""

    uids: tuple[IdMapping, ...]
    gids: tuple[IdMapping, ...]


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A device of the host that a container gets; `permissions` out of ``r``, ``w``, ``m``."""

    host_path: str
    container_path: str
    permissions: str = "mrw"


@dataclass(frozen=True, slots=True)
class Resolver:
    """How names are resolved: the node's resolv.conf, already parsed, and the cluster's DNS."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    has_file: bool = True
    """False: `resolvConf` is set to the empty string, so pods shall not see the node's resolver."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    node_ips: tuple[str, ...] = ()
    in_cluster: bool = True
    """False: there is no cluster, so nobody misses its DNS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardContext:
    """What the downward API says beyond the pod object itself."""

    node_name: str = ""
    host_ips: tuple[str, ...] = ()
    """Addresses of the node, primary first."""
    pod_ips: tuple[str, ...] = ()
    """Addresses of the sandbox as the runtime gives them; may be empty with host networking."""
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    """Allocatable resources of the node (``cpu``, ``memory``, ``ephemeral-storage``): limits where none are set."""


@dataclass(frozen=True, slots=True)
class EnvFile:
    """A file that an environment variable is read from (KEP-3721): a volume and a path below its root."""

    volume: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvContext:
    """Where the values of environment variables come from."""

    downward: DownwardContext
    objects: ConfigReader
    services: Mapping[str, str] = field(default_factory=dict)
    """Variables that point to services; the container's own ones win."""
    files: Mapping[EnvFile, str] = field(default_factory=dict)
    """Contents of the files that :func:`env.env_files` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContext:
    """What a sandbox is made from besides its pod."""

    log_root: str = "/var/log/pods"
    cgroup_parent: str = ""
    resolver: Resolver = field(default_factory=Resolver)
    sysctls: SysctlAllowlist = field(default_factory=SysctlAllowlist.safe)
    resources: LinuxResources | None = None
    """Sum over the pod's containers."""
    overhead: LinuxResources | None = None
    user_namespace: UserNamespace | None = None
    """The pod's ids; None where the runtime cannot give it a user namespace."""
    extra_groups: tuple[int, ...] = ()
    """Groups that persistent volumes of the pod ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """The node's part in a container's security settings."""

    seccomp_default: bool = False
    """Containers without a profile get the runtime's own instead of none."""
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    """Directory of the profiles that `localhostProfile` names."""
    masked_paths: tuple[str, ...] = ()
    """Paths of this node to hide besides the usual ones (``…/cpuN/thermal_throttle``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerContext:
    """What a container is made from besides its pod's spec."""

    image_ref: str
    """The image as the runtime knows it, from ImageManager.ensure."""
    image: ImageFacts
    env: Mapping[str, str]
    """From :func:`env.container_environment`; values may hold surrogate escapes for bytes that are no UTF-8."""
    restart_count: int = 0
    mounts: tuple[HostMount, ...] = ()
    devices: tuple[HostDevice, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations which device plugins ask for; the agent's own win."""
    resources: LinuxResources | None = None
    """Limits and weights, OOM score included."""
    security: SecurityConfig = field(default_factory=SecurityConfig)
    target_id: str = ""
    """Id of the container whose processes an ephemeral container shall see."""
    user_namespace: UserNamespace | None = None
    extra_groups: tuple[int, ...] = ()
