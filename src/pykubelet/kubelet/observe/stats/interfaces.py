"""What the statistics need of others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.linux.cgroups import Layout
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


class UsageCri(Protocol):
    """What the runtime alone knows. Raises the errors of ``base.errors``."""

    async def list_container_stats(self, filter: pb.ContainerStatsFilter | None = None) -> list[pb.ContainerStats]:
        """Usage of the running containers."""

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        """Where images and writable layers are."""


VolumeReader = Callable[[Pod], Awaitable[Mapping[str, VolumeSizes]]]
"""How full a pod's volumes of storage systems are, by name; never raises, but may take its time."""


@dataclass(frozen=True, slots=True)
class StatsDeps:
    """All that the statistics are read through."""

    pods: Callable[[], Sequence[Pod]]
    """The pods with their statuses."""
    pod_cgroup: Callable[[Pod], str | None]
    """The path of a pod's cgroup below the root of the hierarchy; None: it has none."""
    cri: UsageCri
    image_cri: UsageCri
    clock: Clock
    volumes: VolumeReader | None = None


@dataclass(frozen=True, slots=True)
class StatsConfig:
    """Where things are."""

    node_name: str
    layout: Layout
    root_dir: Path
    pod_logs_dir: Path
    groups: tuple[str, ...]
    """The paths of the cgroup of all pods, and of those of the classes below it."""
    runtime_socket: str = ""
    """The runtime's endpoint, by whose other end its process is found."""
    volume_period: Seconds = 60.0
    """``volumeStatsAggPeriod``; 0: volumes are not counted."""
    fresh_for: Seconds = 10.0
    """A reading is given again for so long."""
