"""What the builders are given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pykubelet.criserver.types import ContainerUser, UserNamespace
from pykubelet.pb import runtime_v1_pb2 as pb

Json: TypeAlias = dict[str, object]
OCI_VERSION = "1.0.2"


@dataclass(frozen=True, slots=True)
class ImageDefaults:
    """What the image's configuration says, where the request says nothing."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_dir: str = ""


@dataclass(frozen=True, slots=True)
class HostDevice:
    """A device node of the machine, found at ``path``, to appear at ``target``."""

    target: str
    kind: str
    """``c`` or ``b``."""
    major: int
    minor: int
    mode: int
    uid: int
    gid: int
    access: str = "rwm"


@dataclass(frozen=True, slots=True)
class Host:
    """Facts of the machine that a spec depends on."""

    capabilities: frozenset[str]
    """Those that this process may hand on, with the CAP_ prefix."""
    cgroup_version: int
    least_oom_score: int
    """The lowest OOM score that may be set here: without CAP_SYS_RESOURCE that is our own."""
    seccomp: bool
    hugepage_sizes: frozenset[str] = frozenset()
    swap: bool = False
    """Whether the kernel counts swap (memory.memsw files, or version 2)."""
    user_namespaces: bool = False
    """Whether pods can have user namespaces of their own here."""
    recursive_read_only: bool = False
    """Whether the kernel can make whole trees of mounts read-only (Linux 5.12)."""
    apparmor: bool = False
    apparmor_parser: bool = False
    """Whether profiles can be loaded."""
    selinux: bool = False


@dataclass(frozen=True, slots=True)
class SandboxView:
    """A container's sandbox."""

    hostname: str
    config: pb.PodSandboxConfig
    namespaces: Mapping[str, str]
    """Path by OCI namespace type; a type that is missing is the node's."""
    resolv_conf: str
    hosts: str
    hostname_file: str
    shm: str
    user: UserNamespace | None = None
    """None: the node's."""


@dataclass(frozen=True, slots=True)
class ContainerInput:
    """One container to be described."""

    config: pb.ContainerConfig
    sandbox: SandboxView
    image: ImageDefaults
    user: ContainerUser
    rootfs: str
    cgroup: str
    host: Host
    pid_namespace: str | None
    """A path to join, empty for a new one, None for the node's."""
    devices: tuple[HostDevice, ...] = ()
    mount_sources: Mapping[str, str] = field(default_factory=dict)
    """Where a mount's source really is, by container path, for those that are not simply the host path (images)."""
    seccomp: Json | None = None
    """The profile to use, already read."""
