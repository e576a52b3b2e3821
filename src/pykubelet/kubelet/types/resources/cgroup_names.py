"""Names of the cgroups of pods, in the forms of both cgroup drivers.

    /kubepods                        all pods; Guaranteed ones directly below
    /kubepods/burstable/pod<uid>     the other two QoS classes have a level of their own
    /kubepods/besteffort/pod<uid>

With systemd the same tree is made of slices, each named after its whole path:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _ for ->.slice`.
A name is a tuple of components; only here it becomes a path.
"""

from enum import StrEnum
from typing import TypeAlias

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.qos import QosClass

CgroupName: TypeAlias = tuple[str, ...]

KUBEPODS = "kubepods"
_POD_PREFIX = "pod"
_SLICE = ".slice"


class NameStyle(StrEnum):
    """Cgroup driver; values as `cgroupDriver` of KubeletConfiguration."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


def root_name(cgroup_root: str = "/") -> CgroupName:
    """The cgroup of all pods, below `cgroupRoot` of the configuration. Raises Invalid for an invalid root."""
    parts = [part for part in cgroup_root.split("/") if part]
    if any(part in (".", "..") or "_" in part for part in parts):
        raise Invalid(f"invalid cgroupRoot {cgroup_root!r}: a component is '.' or '..' or contains '_'")
    return (*parts, KUBEPODS)


def qos_name(root: CgroupName, qos: QosClass) -> CgroupName:
    """The parent cgroup of the pods of a QoS class."""
    return root if qos is QosClass.GUARANTEED else (*root, qos.lower())


def pod_name(root: CgroupName, qos: QosClass, uid: PodUID) -> CgroupName:
    """The cgroup of one pod. Raises Invalid for a uid that is not a valid path component."""
    if not uid or set(uid) & set("/_\0") or uid in (".", ".."):
        raise Invalid(f"pod uid {uid!r} cannot name a cgroup")
    return (*qos_name(root, qos), f"{_POD_PREFIX}{uid}")


def uid_of(component: str) -> PodUID | None:
    """The uid in the last component of a pod's cgroup name (`pod_name`); None for other cgroups."""
    uid = component.removeprefix(_POD_PREFIX)
    return PodUID(uid) if uid and uid != component else None


def to_path(name: CgroupName, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """Convert a name to the path below the root of the hierarchy."""
    match style:
        case NameStyle.CGROUPFS:
            return "/" + "/".join(name)
        case NameStyle.SYSTEMD:
            escaped = [part.replace("-", "_") for part in name]
            slices = ["-".join(escaped[: depth + 1]) + _SLICE for depth in range(len(escaped))]
            return "/" + "/".join(slices)


def from_path(path: str, style: NameStyle = NameStyle.CGROUPFS) -> CgroupName:
    """Convert a path from `to_path` back to the name."""
    parts = tuple(part for part in path.split("/") if part)
    match style:
        case NameStyle.CGROUPFS:
            return parts
        case NameStyle.SYSTEMD:
            if not parts:
                return ()
            return tuple(part.replace("_", "-") for part in parts[-1].removesuffix(_SLICE).split("-"))


def component(directory: str, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """The last name component of a directory; with systemd, directory names repeat their parents. Never fails."""
    if style is NameStyle.CGROUPFS:
        return directory
    return directory.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-") if directory.endswith(_SLICE) else ""


def cri_parent(name: CgroupName, style: NameStyle = NameStyle.CGROUPFS) -> str:
    """Value of CRI's `cgroup_parent`: the whole path, or with systemd only the last slice."""
    path = to_path(name, style)
    return path if style is NameStyle.CGROUPFS else path.rsplit("/", 1)[-1]
