"""Values of the CSI part: volumes that pods want of drivers, and the files that tell of them after a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import SecretReference

PLUGIN: Final = "kubernetes.io/csi"
"""The reference's name for all of CSI; directories and volume names are made of it."""
MOUNT: Final = "mount"
"""The directory in a volume's directory that the driver mounts on; beside it lies the volume's record."""


@dataclass(frozen=True, slots=True, order=True)
class VolumeRef:
    """A volume as its driver knows it: what is staged once on a node, however many pods use it."""

    driver: str
    handle: str

    @property
    def unique_name(self) -> str:
        """As the node's status and the attach/detach controller name it."""
        return f"{PLUGIN}/{self.driver}^{self.handle}"

    def __str__(self) -> str:
        return f"{self.handle} of driver {self.driver}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """A volume of a driver as one pod wants it."""

    ref: VolumeRef
    name: str
    """The PersistentVolume's name, or for a volume in the pod's spec the name it has there; directories have it."""
    ephemeral: bool = False
    """Given in the pod's spec: it lives and dies with the pod, and is never staged nor attached."""
    block: bool = False
    """A device, no file system."""
    read_only: bool = False
    fs_type: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    mount_options: tuple[str, ...] = ()
    access_modes: tuple[str, ...] = ()
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What ``vol_data.json`` of a pod's volume tells, in the reference's words, so that either agent can read it."""

    spec_name: str
    ref: VolumeRef
    node: str = ""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """A volume that was published to a pod, or may have been."""

    uid: PodUID
    record: Record
    target: str
    """The path the driver was given."""
    block: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """A volume that was staged, or may have been."""

    ref: VolumeRef
    path: str
    """The path the driver was given."""
    block_name: str = ""
    """The PersistentVolume's name if it is a device."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver's node service can do."""

    stage: bool = False
    stats: bool = False
    expand: bool = False
    condition: bool = False
    single_node_multi_writer: bool = False
    mount_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiConfig:
    """Limits of the calls to drivers; the reference's."""

    call_timeout: Seconds = 120.0
    wait_attach: bool = True
    """``enableControllerAttachDetach``: a controller attaches volumes and says so in the node's status."""
    republish_every: Seconds = 30.0
    """How often at most a volume is published again for a driver with ``requiresRepublish``."""
