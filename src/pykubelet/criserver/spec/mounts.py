"""Builds the mounts of a container. Pure."""

from collections.abc import Collection, Mapping

from pykubelet.base.errors import Invalid
from pykubelet.base.files.path_length import check_length
from pykubelet.criserver.spec.spec_types import ContainerInput, Json, SandboxView
from pykubelet.pb import runtime_v1_pb2 as pb

_HARD = ["nosuid", "noexec", "nodev"]
_PROPAGATION = {
    pb.PROPAGATION_PRIVATE: "rprivate",
    pb.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    pb.PROPAGATION_BIDIRECTIONAL: "rshared",
}


_OWN = ("/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts")
"""Paths at which ``_defaults`` mounts something."""
BELOW_OTHERS = ("/dev/pts", "/dev/mqueue", "/sys/fs/cgroup")
"""File systems of the kernel below others: each container has them, unless it has the node's directory above."""


def covered_paths(config: pb.ContainerConfig) -> frozenset[str]:
    """The paths where the request or the server mounts something. Invalid: a path of the request."""
    return frozenset((*_OWN, *(_clean(mount.container_path) for mount in config.mounts)))


def build_mounts(given: ContainerInput) -> list[Json]:
    """Build all mounts, parents before children; requested mounts replace default ones of the same path.

    The image's volumes come first: they are below no other mount, but links of the image may lead others into them.
    """
    asked = {_clean(mount.container_path): mount for mount in given.config.mounts}
    mounts = [each for each in _defaults(given) if not _is_replaced(str(each["destination"]), asked)]
    mounts += [_asked(path, mount, given) for path, mount in asked.items()]
    mounts.sort(key=lambda each: str(each["destination"]).count("/") if each["destination"] != "/" else 0)
    volumes = [_mount(path, "bind", given.volumes[path], ["rbind", "rprivate", "rw"]) for path in sorted(given.volumes)]
    return volumes + mounts


def _is_replaced(path: str, asked: Collection[str]) -> bool:
    """Whether the request mounts something there, or above it with what the node has there, such as its terminals.

    A file system that is mounted above that would hide it, and on the node itself if the directory is shared.
    """
    return path in asked or (path in BELOW_OTHERS and any(path.startswith(f"{each}/") for each in asked))


def paths_to_relabel(config: pb.ContainerConfig, sandbox: SandboxView, volumes: Mapping[str, str]) -> list[str]:
    """The paths on the host whose files get the SELinux label of the container.

    They are mounts that the request marks, the files of the sandbox, and the image's volumes. A volume that was mounted
    with a label (``seLinuxChangePolicy: MountOption``) is not marked, and file systems without labels are left alone.
    """
    asked = [mount.host_path for mount in config.mounts if mount.selinux_relabel and not mount.HasField("image")]
    files = [sandbox.resolv_conf, sandbox.hosts, sandbox.hostname_file]
    if "ipc" in sandbox.namespaces:
        files.append(sandbox.shm)
    return [*asked, *filter(None, files), *volumes.values()]


def rootfs_propagation(config: pb.ContainerConfig) -> str:
    """The weakest propagation of the root that the mounts need; empty: the runtime's default."""
    kinds = {mount.propagation for mount in config.mounts}
    if pb.PROPAGATION_BIDIRECTIONAL in kinds:
        return "rshared"
    return "rslave" if pb.PROPAGATION_HOST_TO_CONTAINER in kinds else ""


def _clean(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise Invalid(f"mount path {path!r} must be absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Invalid(f"mount path {path!r} must not contain '..'")
    cleaned = "/" + "/".join(parts)
    check_length(cleaned, "a mount path")
    return cleaned


def _defaults(given: ContainerInput) -> list[Json]:
    context = given.config.linux.security_context
    # Only privileged containers may write to sysfs, and to cgroups unless their handler allows that to all.
    access = "rw" if context.privileged else "ro"
    cgroup = "rw" if given.sandbox.handler.cgroup_writable else access
    files = "ro" if context.readonly_rootfs else "rw"
    sandbox = given.sandbox
    own_ipc = "ipc" in sandbox.namespaces
    return [
        _mount("/proc", "proc", "proc", _HARD),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        _mount(
            "/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
        ),
        _mount("/dev/mqueue", "mqueue", "mqueue", _HARD),
        _sysfs(given, access),
        _cgroups(given, cgroup),
        _mount("/dev/shm", "bind", sandbox.shm if own_ipc else "/dev/shm", ["rbind", "rprivate", "rw"]),
        *(
            _mount(path, "bind", source, ["rbind", "rprivate", files])
            for path, source in (
                ("/etc/resolv.conf", sandbox.resolv_conf),
                ("/etc/hostname", sandbox.hostname_file),
                ("/etc/hosts", sandbox.hosts),
            )
            if source
        ),
    ]


def _cgroups(given: ContainerInput, access: str) -> Json:
    """The mount of the cgroups.

    All mounts of cgroup2 share their options, and one from the node's own cgroup namespace sets them: it would take
    away ``nsdelegate`` and ``memory_recursiveprot``, which systemd has set. So a container in that namespace, which is
    a privileged one, gets the node's mount (containerd repeats the options, which crun does not pass on).
    """
    options = [*_HARD, "relatime", access]
    if given.host.cgroup_version == 2 and given.config.linux.security_context.privileged:
        return _mount("/sys/fs/cgroup", "bind", "/sys/fs/cgroup", ["rbind", "rprivate", *options])
    return _mount("/sys/fs/cgroup", "cgroup", "cgroup", options)


def _sysfs(given: ContainerInput, access: str) -> Json:
    """The mount of sysfs.

    It shows a network namespace, and the kernel lets only the owner of that mount it: a user namespace of the pod's own
    does not own the node's network. So such a pod sees the node's mount, read-only as all below it (as containerd).
    """
    if given.sandbox.user is not None and "network" not in given.sandbox.namespaces:
        return _mount("/sys", "bind", "/sys", ["rbind", "rprivate", *_HARD, "rro"])
    return _mount("/sys", "sysfs", "sysfs", [*_HARD, access])


def _asked(path: str, mount: pb.Mount, given: ContainerInput) -> Json:
    source = given.mount_sources.get(mount.container_path, mount.host_path)
    if not source.startswith("/"):
        raise Invalid(f"mount {path}: the host path {source!r} must be absolute")
    if mount.HasField("image") and not mount.readonly:
        raise Invalid(f"mount {path}: an image can only be mounted read-only")
    options = ["rbind", _PROPAGATION[mount.propagation]]
    if mount.recursive_read_only:
        if not mount.readonly or mount.propagation != pb.PROPAGATION_PRIVATE:
            raise Invalid(f"mount {path}: recursive read-only needs readonly and private propagation")
        options.append("rro")
    options.append("ro" if mount.readonly else "rw")
    return _mount(path, "bind", source, options)


def _mount(destination: str, kind: str, source: str, options: list[str]) -> Json:
    return {"destination": destination, "type": kind, "source": source, "options": options}
