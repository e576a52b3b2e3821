"""What one look at the machine gives, before it takes the form that somebody asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.usage import CgroupUsage, CpuUsage, Interface
from pykubelet.models.core_v1 import Pod


@dataclass(frozen=True, slots=True)
class SeenContainer:
    """A running container."""

    name: str
    id: str
    image: str
    started: Seconds
    usage: CgroupUsage | None


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod of which something runs."""

    pod: Pod
    usage: CgroupUsage | None
    containers: tuple[SeenContainer, ...]
    network: tuple[Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class Daemon:
    """The agent or the runtime: its cgroup, or where that is the machine's, its process alone."""

    name: str
    started: Seconds
    usage: CgroupUsage


@dataclass(frozen=True, slots=True)
class Seen:
    """The machine at one moment."""

    at: Seconds
    """Unix time."""
    monotonic: Seconds
    full: bool
    machine: CgroupUsage
    network: tuple[Interface, ...]
    default_interface: str
    pid_limit: int
    daemons: tuple[Daemon, ...]
    groups: tuple[CgroupUsage, ...]
    """The cgroups of all pods and of the classes, the first one above the others."""
    pods: tuple[SeenPod, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """A container by the runtime's account: its writable layer, and CPU and memory where we cannot read them."""

    mountpoint: str = ""
    used: int | None = None
    inodes: int | None = None
    cpu: CpuUsage | None = None
    working_set: int | None = None


@dataclass(frozen=True, slots=True)
class FsView:
    """One file system."""

    path: str
    device: str
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True)
class Storage:
    """The file systems that matter, and what containers take of them."""

    root: FsView | None = None
    images: FsView | None = None
    images_used: tuple[int | None, int | None] = (None, None)
    """Bytes and inodes of the images themselves."""
    containers: FsView | None = None
    containers_used: tuple[int | None, int | None] = (None, None)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    """By container id."""
