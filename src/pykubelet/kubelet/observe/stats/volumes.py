"""What pods' volumes, logs and other files take of the disk: walked in a thread, one pod after the other, and kept.

Walking a big volume takes long, so whoever asks waits a bounded time and then gets what was known before. Nothing is
walked unless somebody asks.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.threads import stoppable
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.compute_summary import PodFiles
from pykubelet.kubelet.observe.stats.ports import VolumeReader
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.stats import FsStats, PvcReference, VolumeStats
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.linux import fsusage
from pykubelet.models.core_v1 import Pod, Volume
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
_WAIT: Final[Seconds] = 2.0
_NOT_WALKED: Final = frozenset({"kubernetes.io~csi", "kubernetes.io~nfs", "kubernetes.io~local-volume"})
"""Folders with volumes of storage systems; who set them up says how full they are."""


@dataclass(slots=True)
class _Entry:
    pod: Pod
    disk: PodFiles
    at: Seconds


class DiskUsage:
    """``run`` walks, ``of`` answers."""

    def __init__(
        self, root_dir: Path, pod_logs_dir: Path, period: Seconds, clock: Clock, others: VolumeReader | None = None
    ) -> None:
        self._others = others
        self._pods_dir = root_dir / "pods"
        self._logs_dir = pod_logs_dir
        self._period = period
        self._clock = clock
        self._known: dict[PodUID, _Entry] = {}
        self._due: dict[PodUID, Pod] = {}
        self._wanted = asyncio.Event()
        self._done = asyncio.Event()

    async def run(self) -> None:
        """Walk what is asked for, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._due:
                uid, pod = self._due.popitem()
                self._known[uid] = _Entry(pod, await self._walk(pod), self._clock.monotonic())
            self._done.set()

    async def of(self, pods: Iterable[Pod]) -> dict[PodUID, PodFiles]:
        """The disk usage of pods: as fresh as the period says if that can be had soon, else older or none."""
        if self._period <= 0:
            return {}
        wanted = {ref_of(pod).uid: pod for pod in pods}
        for uid in self._known.keys() - wanted.keys():
            del self._known[uid]
        oldest = self._clock.monotonic() - self._period
        due = {u: p for u, p in wanted.items() if (entry := self._known.get(u)) is None or entry.at <= oldest}
        if due:
            self._due.update(due)
            self._done.clear()
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT):
                    await self._done.wait()
        return {uid: entry.disk for uid, entry in self._known.items() if uid in wanted}

    async def _walk(self, pod: Pod) -> PodFiles:
        ref, now = ref_of(pod), self._clock.now()
        try:
            files = await stoppable(lambda stop: _PodWalk(self._pods_dir, self._logs_dir, now, stop).walk(pod))
        except (PykubeletError, OSError) as error:
            _log.warning("disk usage not counted", extra={"pod": str(ref), "error": str(error)})
            return PodFiles()
        if self._others is None:
            return files
        others = (await self._others(pod)).items()
        return replace(files, volumes=(*files.volumes, *(_of_storage(name, each, now) for name, each in others)))


class _PodWalk:
    """Blocks."""

    def __init__(self, pods_dir: Path, logs_dir: Path, now: Seconds, stop: Callable[[], bool]) -> None:
        self._pods_dir = pods_dir
        self._logs_dir = logs_dir
        self._time = time_from_unix(now)
        self._stop = stop

    def walk(self, pod: Pod) -> PodFiles:
        """Count everything of one pod."""
        ref = ref_of(pod)
        folder = self._pods_dir / ref.uid
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        found = [
            stats
            for path in sorted(folder.glob("volumes/*/*"))
            if path.parent.name not in _NOT_WALKED
            and (volume := volumes.get(path.name)) is not None
            and (stats := self._volume(volume, path)) is not None
        ]
        return PodFiles(
            volumes=tuple(found),
            ephemeral=tuple(stats.name for stats in found if is_ephemeral(volumes[stats.name])),
            logs=dict(self._logs(ref)),
            own=self._own(folder),
        )

    def _volume(self, volume: Volume, path: Path) -> VolumeStats | None:
        try:
            filesystem = fsusage.filesystem(str(path))
            if _has_own_filesystem(volume):
                used, inodes = filesystem.used, filesystem.inodes_used
            else:
                tree = fsusage.tree_usage(str(path), self._stop)
                used, inodes = tree.bytes, tree.inodes
        except (PykubeletError, OSError):
            return None
        return VolumeStats(
            time=self._time,
            name=volume.name,
            available_bytes=filesystem.available,
            capacity_bytes=filesystem.capacity,
            used_bytes=used,
            inodes_free=filesystem.inodes_free,
            inodes=filesystem.inodes,
            inodes_used=inodes,
        )

    def _logs(self, ref: PodRef) -> Iterable[tuple[str, FsStats]]:
        folder = self._logs_dir / f"{ref.namespace}_{ref.name}_{ref.uid}"
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                stats = self._tree(path)
                if stats is not None and path.is_dir():
                    yield path.name, stats

    def _own(self, folder: Path) -> FsStats | None:
        parts = [stats for name in ("etc-hosts", "containers") if (stats := self._tree(folder / name)) is not None]
        if not parts:
            return None
        return FsStats(
            time=self._time,
            used_bytes=sum(part.used_bytes or 0 for part in parts),
            inodes_used=sum(part.inodes_used or 0 for part in parts),
        )

    def _tree(self, path: Path) -> FsStats | None:
        try:
            tree = fsusage.tree_usage(str(path), self._stop)
        except (NotFound, OSError):
            return None
        return FsStats(time=self._time, used_bytes=tree.bytes, inodes_used=tree.inodes)


def _of_storage(name: str, sizes: VolumeSizes, now: Seconds) -> VolumeStats:
    namespace, _, claim = sizes.claim.partition("/")
    return VolumeStats(
        time=time_from_unix(now),
        name=name,
        available_bytes=sizes.available,
        capacity_bytes=sizes.capacity,
        used_bytes=sizes.used,
        inodes_free=sizes.inodes_free,
        inodes=sizes.inodes,
        inodes_used=sizes.inodes_used,
        pvc_ref=PvcReference(name=claim, namespace=namespace) if claim else None,
    )


def is_ephemeral(volume: Volume) -> bool:
    """Whether a volume takes of the node's own disk, and so counts as ephemeral storage."""
    if volume.empty_dir is not None:
        return not volume.empty_dir.medium
    return volume.config_map is not None


def _has_own_filesystem(volume: Volume) -> bool:
    """Whether the file system's figures are the volume's: memory-backed ones and those of storage systems."""
    if volume.empty_dir is not None:
        return bool(volume.empty_dir.medium)
    on_disk = (volume.config_map, volume.secret, volume.projected, volume.downward_api)
    return not any(source is not None for source in on_disk)
