"""Names of the cgroups of pods, in the forms of both cgroup drivers.

    /kubepods                        all pods; Guaranteed ones directly below
    /kubepods/burstable/pod<uid>     the other two classes have a level of their own
    /kubepods/besteffort/pod<uid>

With systemd the same tree is made of slices, each named after its whole path:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _ for ->.slice`.
A name is a tuple of components; only here it becomes a path.
"""

from enum import StrEnum
from typing import TypeAlias

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.qos import QosClass

CgroupName: TypeAlias = tuple[str, ...]

KUBEPODS = "kubepods"
_POD_PREFIX = "pod"
_SLICE = ".slice"


class NameStyle(StrEnum):
    """Who makes the cgroups; values as `cgroupDriver` of KubeletConfiguration."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


def root_name(cgroup_root: str = "/") -> CgroupName:
    """The cgroup of all pods, below `cgroupRoot` of the configuration. Raises Invalid when that is no path."""
    parts = [part for part in cgroup_root.split("/") if part]
    if any(part in (".", "..") or "_" in part for part in parts):
        raise Invalid(f"cgroupRoot {cgroup_root!r} has a component that cannot name a cgroup ('.', '..' or '_')")
    return (*parts, KUBEPODS)


def qos_name(root: CgroupName, qos: QosClass) -> CgroupName:
    """Where the pods of a class go."""
    return root if qos is QosClass.GUARANTEED else (*root, qos.lower())


def pod_name(root: CgroupName, qos: QosClass, uid: PodUID) -> CgroupName:
    """The cgroup of one pod. Raises Invalid for a uid that cannot be a path component."""
    if not uid or set(uid) & set("/_\0") or uid in (".", ".."):
        raise Invalid(f"pod uid {uid!r} cannot name a cgroup")
    return (*qos_name(root, qos), f"{_POD_PREFIX}{uid}")


def uid_of(component: str) -> PodUID | None:
    """The pod whose cgroup has this last component (as `pod_name` made it); None when it is no pod's."""
    uid = component.removeprefix(_POD_PREFIX)
    return PodUID(uid) if uid and uid != component else None


def to_path(name: CgroupName, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """The path below the root of the hierarchy."""
    match style:
        case NameStyle.CGROUPFS:
            return "/" + "/".join(name)
        case NameStyle.SYSTEMD:
            escaped = [part.replace("-", "_") for part in name]
            slices = ["-".join(escaped[: depth + 1]) + _SLICE for depth in range(len(escaped))]
            return "/" + "/".join(slices)


def from_path(path: str, style: NameStyle = NameStyle.CGROUPFS) -> CgroupName:
    """The name behind a path that `to_path` made."""
    parts = tuple(part for part in path.split("/") if part)
    match style:
        case NameStyle.CGROUPFS:
            return parts
        case NameStyle.SYSTEMD:
            if not parts:
                return ()
            return tuple(part.replace("_", "-") for part in parts[-1].removesuffix(_SLICE).split("-"))


def component(directory: str, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """The last component behind the name of a directory, which with systemd repeats those above. Never fails."""
    if style is NameStyle.CGROUPFS:
        return directory
    return directory.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-") if directory.endswith(_SLICE) else ""


def cri_parent(name: CgroupName, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """What CRI's `cgroup_parent` takes: the whole path, or with systemd the last slice alone."""
    path = to_path(name, style)
    return path if style is NameStyle.CGROUPFS else path.rsplit("/", 1)[-1]
