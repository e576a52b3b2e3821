"""Inputs of the builders of CRI messages, as frozen values, and their error.

The pod runtime collects these facts, which needs I/O; the builders only compute.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.kubelet.actuate.actuate_types import HostMount, ImageFacts
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.cri_messages.config_interfaces import ConfigReader
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity


class ConfigReason(StrEnum):
    """Reasons of an invalid pod or container configuration; names as in the Go kubelet."""

    CREATE_CONTAINER_CONFIG = "CreateContainerConfigError"
    """Waiting reason of a container."""
    CREATE_POD_SANDBOX = "CreatePodSandboxError"
    SYSCTL_FORBIDDEN = "SysctlForbidden"
    """Reason of a rejected pod."""


class ConfigError(PykubeletError):
    """The configuration of a pod or container is invalid or not possible; `message` is shown in its status.

    It is retried, since a missing object or key may appear.
    """

    def __init__(self, reason: ConfigReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def container_error(message: str) -> ConfigError:
    """Return the error for an invalid container configuration."""
    return ConfigError(ConfigReason.CREATE_CONTAINER_CONFIG, message)


def describe(pod: Pod) -> str:
    """The pod in messages: ``NAME_NAMESPACE(UID)``, as in the Go kubelet."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


class IdMapping(Struct, frozen=True):
    """Mapping of an id range of a user namespace."""

    host_id: int
    container_id: int
    length: int


class UserNamespace(Struct, frozen=True):
    """Id mappings of a pod with ``hostUsers: false``."""

    uids: tuple[IdMapping, ...]
    gids: tuple[IdMapping, ...]


class HostDevice(Struct, frozen=True):
    """Device of the host for a container; `permissions` consists of ``r``, ``w``, ``m``."""

    host_path: str
    container_path: str
    permissions: str = "mrw"


class Resolver(Struct, frozen=True):
    """DNS settings of the node: its parsed resolv.conf, and the cluster's DNS."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    has_file: bool = True
    """False: `resolvConf` is the empty string, so pods do not use the node's resolver."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    node_ips: tuple[str, ...] = ()
    in_cluster: bool = True
    """False: the node is standalone, so missing cluster DNS is not reported."""


class DownwardContext(Struct, frozen=True, kw_only=True):
    """Facts for the downward API beyond the pod object."""

    node_name: str = ""
    host_ips: tuple[str, ...] = ()
    """Addresses of the node, primary first."""
    pod_ips: tuple[str, ...] = ()
    """Addresses of the sandbox from the runtime; may be empty on the host network."""
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    """Allocatable resources of the node (``cpu``, ``memory``, ``ephemeral-storage``): limits where none are set."""


class EnvFile(Struct, frozen=True):
    """File with environment variables (KEP-3721): a volume, and a path below its root."""

    volume: str
    path: str


class EnvFileValues(Struct, frozen=True):
    """Variables that are wanted of such a file."""

    values: Mapping[str, str]
    fault: str = ""
    """The reason why the file could not be read to its end; empty if it could, or if all variables come before."""

    def value(self, key: str) -> str:
        """Return the value of a variable; empty if it is missing. Raises Invalid if it may be behind a faulty line."""
        if key not in self.values and self.fault:
            raise Invalid(self.fault)
        return self.values.get(key, "")


class EnvContext(Struct, frozen=True, kw_only=True):
    """Inputs of environment variables."""

    downward: DownwardContext
    objects: ConfigReader
    services: Mapping[str, str] = field(default_factory=dict)
    """Service variables; the container's own variables override them."""
    files: Mapping[EnvFile, EnvFileValues] = field(default_factory=dict)
    """Variables of the files that :func:`env.env_files` names."""


class SandboxContext(Struct, frozen=True, kw_only=True):
    """Inputs of a sandbox configuration besides the pod."""

    log_root: str = "/var/log/pods"
    cgroup_parent: str = ""
    resolver: Resolver = field(default_factory=Resolver)
    sysctls: SysctlAllowlist = field(default_factory=SysctlAllowlist.safe)
    resources: LinuxResources | None = None
    """Sum over the pod's containers."""
    overhead: LinuxResources | None = None
    user_namespace: UserNamespace | None = None
    """Id mappings of the pod; None without a user namespace."""
    extra_groups: tuple[int, ...] = ()
    """Supplemental groups that PersistentVolumes of the pod require."""


class SecurityConfig(Struct, frozen=True, kw_only=True):
    """Security settings of the node for containers."""

    seccomp_default: bool = False
    """Whether containers without a seccomp profile get RuntimeDefault instead of Unconfined."""
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    """Directory of the `localhostProfile` files."""
    masked_paths: tuple[str, ...] = ()
    """Paths of this node to hide besides the usual ones (``…/cpuN/thermal_throttle``)."""


class ContainerContext(Struct, frozen=True, kw_only=True):
    """Inputs of a container configuration besides the pod's spec."""

    image_ref: str
    """The runtime's reference to the image, from ImageManager.ensure."""
    image: ImageFacts
    env: Mapping[str, str]
    """From :func:`env.container_environment`; values may have surrogate escapes for bytes that are not UTF-8."""
    restart_count: int = 0
    mounts: tuple[HostMount, ...] = ()
    devices: tuple[HostDevice, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations that device plugins request; the agent's own override them."""
    resources: LinuxResources | None = None
    """Limits, weights and OOM score."""
    security: SecurityConfig = field(default_factory=SecurityConfig)
    target_id: str = ""
    """Id of the target container of an ephemeral container."""
    user_namespace: UserNamespace | None = None
    extra_groups: tuple[int, ...] = ()
