"""Values of the CSI package: volumes of pods, and their records on disk."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.storage import DriverNodeInfo
from pykubelet.models.core_v1 import SecretReference

PLUGIN: Final = "kubernetes.io/csi"
"""Plugin name of CSI as in the Go kubelet; part of directory and volume names."""
MOUNT: Final = "mount"
"""Name of the driver's mount point in a volume's directory, next to the volume's record."""


class VolumeRef(Struct, frozen=True, order=True):
    """Volume as its driver knows it; it is staged once on a node, however many pods use it."""

    driver: str
    handle: str

    @property
    def unique_name(self) -> str:
        """Name of the volume in the node's status and for the attach/detach controller."""
        return f"{PLUGIN}/{self.driver}^{self.handle}"

    def __str__(self) -> str:
        return f"{self.handle} of driver {self.driver}"


class CsiVolume(Struct, frozen=True, kw_only=True):
    """CSI volume of one pod."""

    ref: VolumeRef
    name: str
    """Name of the PersistentVolume, or of the inline volume in the pod's spec; part of directory names."""
    ephemeral: bool = False
    """Inline volume of the pod's spec: it is deleted with the pod, and never staged or attached."""
    block: bool = False
    """Whether it is a block device without a file system."""
    read_only: bool = False
    fs_type: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    mount_options: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None


class Record(Struct, frozen=True, kw_only=True):
    """Content of ``vol_data.json`` of a volume, in the format of the Go kubelet."""

    spec_name: str
    ref: VolumeRef
    node: str = ""
    ephemeral: bool = False


class PublishedVolume(Struct, frozen=True):
    """Volume that was published to a pod, or may have been."""

    uid: PodUID
    record: Record
    target: str
    """Path that was passed to the driver."""
    block: bool = False


class StagedVolume(Struct, frozen=True):
    """Volume that was staged, or may have been."""

    ref: VolumeRef
    path: str
    """Path that was passed to the driver."""
    block_name: str = ""
    """Name of the PersistentVolume if it is a device."""


class Capabilities(Struct, frozen=True):
    """Capabilities of a driver's node service."""

    stage: bool = False
    stats: bool = False
    expand: bool = False
    condition: bool = False
    single_node_multi_writer: bool = False
    mount_group: bool = False


class CsiConfig(Struct, frozen=True, kw_only=True):
    """Limits of calls to drivers; defaults of the Go kubelet."""

    call_timeout: Seconds = 120.0
    wait_attach: bool = True
    """``enableControllerAttachDetach``: a controller attaches volumes and reports it in the node's status."""
    republish_every: Seconds = 30.0
    """Minimum seconds between publications of a volume for a driver with ``requiresRepublish``."""


class CsiEvents(Struct, frozen=True, kw_only=True):
    """Events of the CSI components. Subscribers must return at once and not raise."""

    called: Callbacks[[str, str, str, Seconds]] = field(default_factory=Callbacks)
    """After each call to a driver: driver, method, gRPC code, duration in seconds."""
    installed: Callbacks[[str, DriverNodeInfo]] = field(default_factory=Callbacks)
    """A driver can be used: its name, and its node information for the cluster."""
    registered: Callbacks[[str]] = field(default_factory=Callbacks)
    """The registration of a driver has ended well: its name."""
    removed: Callbacks[[str]] = field(default_factory=Callbacks)
    """A driver has unregistered: its name."""
    limit_reached: Callbacks[[str]] = field(default_factory=Callbacks)
    """A volume is not attached since the node has as many as it can have: the driver's name."""
    in_use_changed: Callbacks[[]] = field(default_factory=Callbacks)
    """`CsiVolumes.in_use` has changed."""
