"""Values of the volume manager."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.criconfig.types import DownwardContext
from pykubelet.kubelet.actuate.volumes.ports import (
    ClaimReader,
    ConfigReader,
    RecursiveReadOnly,
    TokenSource,
    VolumeImages,
)
from pykubelet.kubelet.actuate.volumes.source import Source
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.work import NoMeter, WorkMeter
from pykubelet.models.core_v1 import Pod, Volume

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiVolumes


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeContext:
    """Where the contents of a pod's volumes come from."""

    config: ConfigReader
    downward: DownwardContext = field(default_factory=DownwardContext)
    """Facts beyond the pod object; the memory in its `allocatable` also bounds volumes in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDeps:
    """Whom the volume manager talks to."""

    clock: Clock
    events: EventRecorder
    images: VolumeImages
    tokens: TokenSource | None = None
    """None without an API server: nobody issues tokens."""
    recursive_read_only: RecursiveReadOnly = lambda pod: False
    claims: ClaimReader | None = None
    """None without an API server: nobody has claims."""
    csi: "CsiVolumes | None" = None
    """None without an API server."""
    meter: WorkMeter = NoMeter()


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig:
    """Limits of the volume manager."""

    deadline: Seconds = 123.0
    """How long setting up or taking down one pod's volumes may block (the reference's 2 m 3 s)."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """How a kind of volume is shown to containers."""

    read_only: bool = False
    selinux_relabel: bool = True
    """The content is the pod's own, so the runtime may label it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One volume of one pod that shall be set up."""

    pod: Pod
    volume: Volume
    path: Path
    """Where its content goes, or is."""
    context: VolumeContext
    tokens: TokenSource | None
    now: Seconds
    source: Source | None = None
    """For what only the claim or the PersistentVolume says."""
    device: Path | None = None
    """Where the file system of a local volume is mounted if that is a device."""

    @property
    def fs_group(self) -> int | None:
        security = self.pod.spec.security_context
        return security.fs_group if security else None


@dataclass(frozen=True, slots=True)
class Work:
    """What setting up a volume comes to."""

    run: Callable[[], None]
    """Does it. Blocks, may be repeated. Raises base errors and OSError."""
    content: bytes = b""
    """Digest of the files it will show; empty if the content is not ours."""
    lasting: bool = False
    """Once done it need not be looked at again (a check of a path of the host, which may hang)."""


class Plugin(Protocol):
    """One kind of volume."""

    name: str
    """As the reference names it: `kubernetes.io/empty-dir`; directories are named after it."""
    attributes: Attributes

    def prepare(self, request: Request) -> Work:
        """Gather what is needed, without blocking. Raises base errors with the reference's text."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A volume that this process has set up: how to see that it is still there, and what it shows."""

    device: int
    inode: int
    content: bytes
