"""Values of the volume manager."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.volumes.ownership import Change
from pykubelet.kubelet.actuate.volumes.volume_interfaces import (
    ClaimReader,
    ConfigReader,
    RecursiveReadOnly,
    TokenSource,
    VolumeImages,
)
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.models.core_v1 import Pod, Volume

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiVolumes


class VolumeContext(Struct, frozen=True, kw_only=True):
    """Inputs for the contents of a pod's volumes."""

    config: ConfigReader
    downward: DownwardContext = field(default_factory=DownwardContext)
    """Facts beyond the pod object; the memory in its `allocatable` also limits volumes in memory."""


class VolumeDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the volume manager."""

    images: VolumeImages
    tokens: TokenSource | None = None
    """None without an API server, which issues the tokens."""
    recursive_read_only: RecursiveReadOnly = lambda handler: False
    claims: ClaimReader | None = None
    """None without an API server, which has the claims."""
    csi: "CsiVolumes | None" = None
    """None without an API server."""
    telemetry: Telemetry[WorkMeter]


class VolumeConfig(Struct, frozen=True, kw_only=True):
    """Limits of the volume manager."""

    deadline: Seconds = 123.0
    """Seconds that setting up or tearing down one pod's volumes may block (2 m 3 s, as in the Go kubelet)."""


class VolumeAttributes(Struct, frozen=True):
    """Mount attributes of a kind of volume."""

    read_only: bool = False
    selinux_relabel: bool = True
    """Whether the runtime may relabel the content, since it belongs to the pod alone."""


class SetUpRequest(Struct, frozen=True, kw_only=True):
    """SetUpRequest to set up a volume of a pod."""

    pod: Pod
    volume: Volume
    path: Path
    """Directory of the volume's content."""
    context: VolumeContext
    tokens: TokenSource | None
    now: Seconds
    source: Source | None = None
    """Claim and PersistentVolume, if there are any."""
    device: Path | None = None
    """Mount point of the file system if the local volume is a device."""

    @property
    def fs_group(self) -> int | None:
        security = self.pod.spec.security_context
        return security.fs_group if security else None


class Work(Struct, frozen=True):
    """The blocking part of setting up a volume."""

    run: Callable[[], None]
    """Sets up the volume. Blocks; repeatable. Raises base errors and OSError."""
    content: bytes = b""
    """Digest of the files that the agent writes; empty if the agent writes none."""
    size: Bytes = Bytes(0)
    """Bytes of these files."""
    once: bool = False
    """Not to be repeated nor checked once it was done (a check of a host path may hang)."""
    first: Change | None = None
    """A part that may take minutes and comes before ``run``."""


class Plugin(Protocol):
    """Plugin for one kind of volume."""

    name: str
    """Plugin name as in the Go kubelet, `kubernetes.io/empty-dir`; directories are named after it."""
    attributes: VolumeAttributes

    def prepare(self, request: SetUpRequest) -> Work:
        """Collect the inputs without blocking. Raises base errors with the messages of the Go kubelet."""


class ReadyVolume(Struct, frozen=True):
    """Volume that this process has set up: identity of its directory, and digest and bytes of its files."""

    device: int
    inode: int
    content: bytes
    size: Bytes = Bytes(0)
