"""The inputs of the builders: image defaults, devices, facts of the machine, the sandbox of a container."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from pykubelet.criserver.types import ContainerUser, UserNamespace
from pykubelet.pb import runtime_v1_pb2 as pb

Json: TypeAlias = dict[str, object]
OCI_VERSION = "1.0.2"


class ImageDefaults(Struct, frozen=True):
    """The values of the image's configuration that apply unless the request sets them."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_dir: str = ""


class HostDevice(Struct, frozen=True):
    """A device node of the machine, to appear at ``target`` in the container."""

    target: str
    kind: str
    """``c`` or ``b``."""
    major: int
    minor: int
    mode: int
    uid: int
    gid: int
    access: str = "rwm"


def device_node(device: HostDevice) -> Json:
    """Return the entry of a device in ``linux.devices``."""
    return {
        "path": device.target,
        "type": device.kind,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode & 0o7777,
        "uid": device.uid,
        "gid": device.gid,
    }


LEAST_OOM_SCORE: Final = -1000
"""The oom_score_adj of a process that the kernel never kills for memory."""


class Host(Struct, frozen=True):
    """Facts of the machine that a spec depends on."""

    capabilities: frozenset[str]
    """The capabilities that this process has and can grant, with the CAP_ prefix."""
    cgroup_version: int
    least_oom_score: int
    """The lowest oom_score_adj that can be set: without CAP_SYS_RESOURCE, that of this process."""
    seccomp: bool
    oom_score: int = 0
    """The oom_score_adj of this process, which programs that it starts inherit."""
    hugepage_sizes: frozenset[str] = frozenset()
    swap: bool = False
    """The kernel accounts swap (memory.memsw files, or cgroup v2)."""
    user_namespaces: bool = False
    """Pods can have their own user namespaces on this machine."""
    recursive_read_only: bool = False
    """The kernel supports recursive read-only mounts (Linux 5.12)."""
    apparmor: bool = False
    apparmor_parser: bool = False
    """AppArmor profiles can be loaded."""
    selinux: bool = False
    """SELinux is enabled, its policy knows containers, and the server's configuration does not say otherwise."""
    selinux_process: str = ""
    """The policy's label of container processes; that of their files."""
    selinux_files: str = ""
    selinux_problem: str = ""
    """The reason why containers get no labels though SELinux is enabled; empty: they do, or it is not."""
    architecture: str = "x86_64"
    """As ``uname -m`` names it."""
    kernel: tuple[int, int] = (6, 1)
    """The version of the kernel."""

    @property
    def protects_from_oom(self) -> bool:
        """Whether containers can get every oom_score_adj, also the lowest."""
        return self.least_oom_score <= LEAST_OOM_SCORE


class HandlerOptions(Struct, frozen=True):
    """The settings of a runtime handler that change the specs of its containers; the names are containerd's."""

    pod_annotations: tuple[str, ...] = ()
    container_annotations: tuple[str, ...] = ()
    privileged_without_host_devices: bool = False
    privileged_without_host_devices_all_devices_allowed: bool = False
    cgroup_writable: bool = False
    device_ownership_from_security_context: bool = False
    sandbox_annotations: bool = True
    """Whether specs name the type of the container and its sandbox."""
    base: Json | None = None
    """The content of ``base_runtime_spec``, checked."""


class SandboxView(Struct, frozen=True):
    """The sandbox as the spec of a container needs it."""

    hostname: str
    config: pb.PodSandboxConfig
    namespaces: Mapping[str, str]
    """Path by OCI namespace type; for missing types the node's namespace is used."""
    resolv_conf: str
    hosts: str
    hostname_file: str
    shm: str
    user: UserNamespace | None = None
    """None: the node's user namespace."""
    id: str = ""
    selinux_level: str = ""
    """The pod's own level; empty without SELinux, and in pods of servers that allocated none."""
    handler: HandlerOptions = HandlerOptions()


class ContainerInput(Struct, frozen=True):
    """The input of ``build_container``."""

    config: pb.ContainerConfig
    sandbox: SandboxView
    image: ImageDefaults
    user: ContainerUser
    rootfs: str
    cgroup: str
    host: Host
    pid_namespace: str | None
    """The path of a namespace to join; empty: a new one; None: the node's."""
    devices: tuple[HostDevice, ...] = ()
    mount_sources: Mapping[str, str] = field(default_factory=dict)
    """Sources that replace the host paths of mounts (images, ID-mapped mounts), by container path."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """The host directories of the image's volumes, by container path."""
    seccomp: Json | None = None
    """The content of the seccomp profile; None: unconfined."""
