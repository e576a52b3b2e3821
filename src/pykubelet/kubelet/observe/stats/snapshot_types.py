"""A snapshot of the machine, from which the Summary API and the metrics are computed."""

from collections.abc import Mapping

from msgspec import Struct, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.resources.usage import CgroupUsage, CpuUsage, DiskActivity
from pykubelet.linux.procparse import NetDevice
from pykubelet.models.core_v1 import Pod


class ContainerSnapshot(Struct, frozen=True):
    """Usage of a running container."""

    name: str
    id: str
    image: str
    started: Seconds
    usage: CgroupUsage | None


class PodSnapshot(Struct, frozen=True):
    """Usage of a pod with a running container."""

    pod: Pod
    usage: CgroupUsage | None
    containers: tuple[ContainerSnapshot, ...]
    network: tuple[NetDevice, ...] = ()


class Daemon(Struct, frozen=True):
    """Usage of the agent or the runtime: of its cgroup, or of its process if that is in the root cgroup."""

    name: str
    started: Seconds
    usage: CgroupUsage


class Snapshot(Struct, frozen=True):
    """Usage of the machine at one moment."""

    at: Seconds
    """Unix time."""
    monotonic: Seconds
    full: bool
    machine: CgroupUsage
    network: tuple[NetDevice, ...]
    default_interface: str
    pid_limit: int
    disks: Mapping[str, DiskActivity]
    """Activity by block device, for full snapshots."""
    daemons: tuple[Daemon, ...]
    groups: tuple[CgroupUsage, ...]
    """The cgroup of all pods, followed by the QoS cgroups below it."""
    pods: tuple[PodSnapshot, ...]


class Layer(Struct, frozen=True):
    """A container's figures as the runtime reports them: writable layer, CPU time, memory working set."""

    mountpoint: str = ""
    used: int | None = None
    inodes: int | None = None
    cpu: CpuUsage | None = None
    working_set: int | None = None


class FsView(Struct, frozen=True):
    """Capacity and usage of a file system."""

    path: str
    device: str
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


class Storage(Struct, frozen=True):
    """The file systems of the agent's directory, of images and of writable layers, and their usage."""

    root: FsView | None = None
    images: FsView | None = None
    images_used: tuple[int | None, int | None] = (None, None)
    """Bytes and inodes of the images themselves."""
    containers: FsView | None = None
    containers_used: tuple[int | None, int | None] = (None, None)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    """Figures by container id."""
