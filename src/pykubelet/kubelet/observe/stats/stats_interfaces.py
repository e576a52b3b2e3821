"""Interfaces of the other stages that the measurement of usage calls."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.linux.cgroups import Layout
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


class UsageCri(Protocol):
    """CRI calls about usage. Raise errors of ``base.errors``."""

    async def list_container_stats(self, filter: pb.ContainerStatsFilter | None = None) -> list[pb.ContainerStats]:
        """Return the usage of the running containers."""

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        """Return the file systems of images and writable layers."""


VolumeReader = Callable[[Pod], Awaitable[Mapping[str, VolumeSizes]]]
"""Returns capacity and usage of a pod's volumes of storage systems, by name; never raises, but may be slow."""


class StatsDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `NodeUsage`."""

    pods: Callable[[], Sequence[Pod]]
    """Returns the pods with their statuses."""
    pod_cgroup: Callable[[Pod], str | None]
    """Returns the path of a pod's cgroup below the root of the hierarchy; None: the pod has no cgroup."""
    cri: UsageCri
    image_cri: UsageCri
    clock: Clock
    volumes: VolumeReader | None = None


class StatsConfig(Struct, frozen=True):
    """Names and paths on the node, and intervals."""

    node_name: str
    layout: Layout
    root_dir: Path
    pod_logs_dir: Path
    groups: tuple[str, ...]
    """Paths of the cgroup of all pods, and of the QoS cgroups below it."""
    runtime_socket: str = ""
    """The runtime's endpoint, whose peer is the runtime's process."""
    volume_period: Seconds = 60.0
    """``volumeStatsAggPeriod``; 0: volumes are not measured."""
    fresh_for: Seconds = 10.0
    """Time for which a reading is reused."""
