"""Inputs for the builders."""

from msgspec.structs import replace

from pykubelet.criserver.spec import ContainerInput, Host, ImageDefaults, SandboxView
from pykubelet.criserver.spec.security.capabilities import ALL
from pykubelet.criserver.types import ContainerUser
from pykubelet.pb import runtime_v1_pb2 as pb

HOST = Host(
    capabilities=frozenset(f"CAP_{name}" for name in ALL),
    cgroup_version=1,
    least_oom_score=-1000,
    seccomp=True,
    hugepage_sizes=frozenset({"2MB"}),
    swap=False,
)
NAMESPACES = {"network": "/ns/net", "uts": "/ns/uts", "ipc": "/ns/ipc"}


def given(
    config: pb.ContainerConfig | None = None, *, host: Host = HOST, image: ImageDefaults | None = None
) -> ContainerInput:
    """A container of image ``/bin/app`` in a sandbox with namespaces of its own."""
    sandbox = SandboxView(
        hostname="web",
        config=pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="web", namespace="default", uid="u1")),
        namespaces=NAMESPACES,
        resolv_conf="/s/resolv.conf",
        hosts="/s/hosts",
        hostname_file="/s/hostname",
        shm="/s/shm",
    )
    return ContainerInput(
        config=config or pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app")),
        sandbox=sandbox,
        image=image or ImageDefaults(("/bin/app",), ("serve",), ("PATH=/bin", "A=image"), "/srv"),
        user=ContainerUser(1000, 1000, (1000,), "/home/app", "app"),
        rootfs="/rootfs",
        cgroup="/pod/app",
        host=host,
        pid_namespace="",
    )


def in_node_network(of: ContainerInput) -> ContainerInput:
    """Like ``given``, in a sandbox with only an IPC namespace."""
    return replace(of, sandbox=replace(of.sandbox, namespaces={"ipc": "/ns/ipc"}))
