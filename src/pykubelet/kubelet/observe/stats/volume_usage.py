"""Disk usage of pods' volumes, logs and other files, measured in threads of the pods, in slices, and cached.

Walking a million files takes long. So pods share the slots in slices of ``_SLICE`` seconds, which lets a small pod
finish before a big one; a pod whose walk took long is walked less often, and a walk that takes too long ends with the
sum so far. A request waits a bounded time, and then returns the previous figures. Nothing is walked without a request.
"""

import asyncio
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.plan.summary import PodFiles
from pykubelet.kubelet.observe.stats.stats_interfaces import VolumeReader
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.resources.stats import FsStats, PvcReference, VolumeStats
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.linux.filesystems import fsusage
from pykubelet.models.core_v1 import Pod, Volume
from pykubelet.models.scalars import time_from_unix

_WAIT: Final[Seconds] = 2.0
_CONCURRENT_WALKS: Final = 2
"""Number of pods that are walked concurrently."""
_SLICE: Final[Seconds] = 0.2
_RESPONDING: Final[Seconds] = 10.0
"""Deadline of a slice; after it, the file system is not responding."""
_LONGEST: Final[Seconds] = 120.0
"""Maximum time of the walk of one pod, over all its slices."""
_SHARE: Final = 20
"""Factor by which the time that a pod's figures are kept exceeds the time of its walk."""
_NOT_WALKED: Final = frozenset({"kubernetes.io~csi", "kubernetes.io~nfs", "kubernetes.io~local-volume"})
"""Directories of volumes of storage systems, whose usage their plugin reports."""


WalkSteps = Generator[None, bool | None, PodFiles]
"""A walk in steps; sending True to it ends the walk with this step."""


class _Entry(Struct):
    disk: PodFiles
    until: Seconds


class DiskUsage:
    """The cached disk usage of pods: ``run`` measures, ``of`` requests and returns it."""

    def __init__(
        self, *, root_dir: Path, pod_logs_dir: Path, period: Seconds, clock: Clock, others: VolumeReader | None = None
    ) -> None:
        self._others = others
        self._pods_dir = root_dir / "pods"
        self._logs_dir = pod_logs_dir
        self._period = period
        self._clock = clock
        self._known: dict[PodUID, _Entry] = {}
        self._due: dict[PodUID, Pod] = {}
        self._counting: set[PodUID] = set()
        self._slots = asyncio.Semaphore(_CONCURRENT_WALKS)
        self._guard = Guard("usage.pods", clock.monotonic)
        self._wanted = asyncio.Event()
        self._done = asyncio.Event()

    def reconfigure(self, period: Seconds) -> None:
        """Keep figures for this time from now on, also those that there are."""
        self._period = period
        latest = self._clock.monotonic() + max(0.0, period)
        for entry in self._known.values():
            entry.until = min(entry.until, latest)

    async def run(self) -> None:
        """Walk requested pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while self._due:
                    uid, pod = self._due.popitem()
                    self._counting.add(uid)
                    group.create_task(self._count(uid, pod), name=f"disk-usage {uid}")

    async def of(self, pods: Iterable[Pod]) -> dict[PodUID, PodFiles]:
        """Return the disk usage of pods, as fresh as the period if available within two seconds, else older or none."""
        if self._period <= 0:
            return {}
        wanted = {ref_of(pod).uid: pod for pod in pods}
        for uid in self._known.keys() - wanted.keys():
            del self._known[uid]
        now = self._clock.monotonic()
        stale = [uid for uid in wanted if (entry := self._known.get(uid)) is None or entry.until <= now]
        self._due.update({uid: wanted[uid] for uid in self._guard.due(stale) if uid not in self._counting})
        if self._due or self._counting & set(stale):
            self._done.clear()
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT):
                    await self._done.wait()
        return {uid: entry.disk for uid, entry in self._known.items() if uid in wanted}

    async def _count(self, uid: PodUID, pod: Pod) -> None:
        try:
            with self._guard.item(uid):
                files, took = await self._walk(pod)
                if self._others is not None:
                    now, others = self._clock.now(), (await self._others(pod)).items()
                    more = (_of_storage(name, each, now) for name, each in others)
                    files = replace(files, volumes=(*files.volumes, *more))
                kept = max(self._period, took * _SHARE)
                self._known[uid] = _Entry(files, self._clock.monotonic() + kept)
        finally:
            self._counting.discard(uid)
            if not self._counting and not self._due:
                self._done.set()

    async def _walk(self, pod: Pod) -> tuple[PodFiles, Seconds]:
        """Walk a pod's files; return them and the seconds it took. Transient: a file system is not responding."""
        steps = _PodWalk(pods_dir=self._pods_dir, logs_dir=self._logs_dir, now=self._clock.now()).walk(pod)
        took = 0.0
        while True:
            async with self._slots:
                owner = f"pod/{ref_of(pod).uid}"
                files, slice_took = await blocking.call_to_end(
                    owner, _slice, steps, took > _LONGEST, deadline=_RESPONDING
                )
            took += slice_took
            if files is not None:
                return files, took


def _slice(steps: WalkSteps, last: bool) -> tuple[PodFiles | None, Seconds]:
    """Walk for ``_SLICE`` seconds, or with ``last`` to the next possible end. Blocks."""
    begun = time.perf_counter()
    try:
        next(steps)
        while last or time.perf_counter() - begun < _SLICE:
            steps.send(last)
    except StopIteration as end:
        files: PodFiles = end.value
        return files, time.perf_counter() - begun
    return None, time.perf_counter() - begun


class _PodWalk:
    """A walk of one pod's files. Blocks."""

    def __init__(self, *, pods_dir: Path, logs_dir: Path, now: Seconds) -> None:
        self._pods_dir = pods_dir
        self._logs_dir = logs_dir
        self._time = time_from_unix(now)

    def walk(self, pod: Pod) -> WalkSteps:
        """Walk the volumes, logs and other files of a pod."""
        ref = ref_of(pod)
        directory = self._pods_dir / ref.uid
        volumes = {volume.name: volume for volume in pod.spec.volumes}
        found: list[VolumeStats] = []
        for path in sorted(directory.glob("volumes/*/*")):
            volume = volumes.get(path.name)
            if path.parent.name not in _NOT_WALKED and volume is not None:
                stats = yield from self._volume(volume, path)
                found += [stats] if stats is not None else []
        return PodFiles(
            volumes=tuple(found),
            ephemeral=tuple(stats.name for stats in found if is_ephemeral(volumes[stats.name])),
            logs=(yield from self._logs(ref)),
            own=(yield from self._own(directory)),
        )

    def _volume(self, volume: Volume, path: Path) -> Generator[None, bool | None, VolumeStats | None]:
        try:
            filesystem = fsusage.filesystem(str(path))
            if _has_own_filesystem(volume):
                used, inodes = filesystem.used, filesystem.inodes_used
            else:
                tree = yield from fsusage.tree_usage_in_steps(str(path))
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

    def _logs(self, ref: PodRef) -> Generator[None, bool | None, dict[str, FsStats]]:
        directory = self._logs_dir / f"{ref.namespace}_{ref.name}_{ref.uid}"
        found: dict[str, FsStats] = {}
        for path in _directories(directory):
            stats = yield from self._tree(path)
            if stats is not None:
                found[path.name] = stats
        return found

    def _own(self, directory: Path) -> Generator[None, bool | None, FsStats | None]:
        parts: list[FsStats] = []
        for name in ("etc-hosts", "containers"):
            stats = yield from self._tree(directory / name)
            parts += [stats] if stats is not None else []
        if not parts:
            return None
        return FsStats(
            time=self._time,
            used_bytes=sum(part.used_bytes or 0 for part in parts),
            inodes_used=sum(part.inodes_used or 0 for part in parts),
        )

    def _tree(self, path: Path) -> Generator[None, bool | None, FsStats | None]:
        try:
            tree = yield from fsusage.tree_usage_in_steps(str(path))
        except (NotFound, OSError):
            return None
        return FsStats(time=self._time, used_bytes=tree.bytes, inodes_used=tree.inodes)


def _directories(directory: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())


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
    """Whether a volume is on the node's own disk, and so counts as ephemeral storage."""
    if volume.empty_dir is not None:
        return not volume.empty_dir.medium
    return volume.config_map is not None


def _has_own_filesystem(volume: Volume) -> bool:
    """Whether the volume is a file system of its own: memory-backed, or of a storage system."""
    if volume.empty_dir is not None:
        return bool(volume.empty_dir.medium)
    on_disk = (volume.config_map, volume.secret, volume.projected, volume.downward_api)
    return not any(source is not None for source in on_disk)
