"""A snapshot of the machine, from which the Summary API and the metrics are computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.resources.usage import CgroupUsage, CpuUsage
from pykubelet.linux.procparse import NetDevice
from pykubelet.models.core_v1 import Pod


@dataclass(frozen=True, slots=True)
class ContainerSnapshot:
    """Usage of a running container."""

    name: str
    id: str
    image: str
    started: Seconds
    usage: CgroupUsage | None


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """Usage of a pod with a running container."""

    pod: Pod
    usage: CgroupUsage | None
    containers: tuple[ContainerSnapshot, ...]
    network: tuple[NetDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Daemon:
    """Usage of the agent or the runtime: of its cgroup, or of its process if that is in the root cgroup."""

    name: str
    started: Seconds
    usage: CgroupUsage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Usage of the machine at one moment."""

    at: Seconds
    """Unix time."""
    monotonic: Seconds
    full: bool
    machine: CgroupUsage
    network: tuple[NetDevice, ...]
    default_interface: str
    pid_limit: int
    daemons: tuple[Daemon, ...]
    groups: tuple[CgroupUsage, ...]
    """The cgroup of all pods, followed by the QoS cgroups below it."""
    pods: tuple[PodSnapshot, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """A container's figures as the runtime reports them: writable layer, CPU time, memory working set."""

    mountpoint: str = ""
    used: int | None = None
    inodes: int | None = None
    cpu: CpuUsage | None = None
    working_set: int | None = None


@dataclass(frozen=True, slots=True)
class FsView:
    """Capacity and usage of a file system."""

    path: str
    device: str
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True)
class Storage:
    """The file systems of the agent's directory, of images and of writable layers, and their usage."""

    root: FsView | None = None
    images: FsView | None = None
    images_used: tuple[int | None, int | None] = (None, None)
    """Bytes and inodes of the images themselves."""
    containers: FsView | None = None
    containers_used: tuple[int | None, int | None] = (None, None)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    """Figures by container id."""
