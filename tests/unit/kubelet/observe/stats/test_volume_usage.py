"""Disk usage of pods' files, on a real directory."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.kubelet.observe.stats import volume_usage
from pykubelet.kubelet.observe.stats.volume_usage import DiskUsage, WalkSteps, _PodWalk, is_ephemeral
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.stats import PvcReference
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Volume
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.observe.stats.trees import running_pod

UID = PodUID("uid-web")
DISK = Volume(name="disk", empty_dir=core.EmptyDirVolumeSource())
RAM = Volume(name="ram", empty_dir=core.EmptyDirVolumeSource(medium="Memory"))
POD = running_pod("web", "app", volumes=(DISK, RAM))


class Disks:
    """A node's directories, and what counts them."""

    def __init__(self, base: Path, period: float = 60.0) -> None:
        self.clock = VirtualClock()
        self.volumes = base / "pods" / UID / "volumes" / "kubernetes.io~empty-dir"
        for name in ("disk", "ram"):
            (self.volumes / name).mkdir(parents=True)
        self.usage = DiskUsage(root_dir=base, pod_logs_dir=base / "logs", period=period, clock=self.clock)

    def fill(self, size: int) -> None:
        (self.volumes / "disk" / "file").write_bytes(b"x" * size)

    async def used(self) -> int:
        """Bytes in the volume on disk."""
        files = (await self.usage.of([POD]))[UID]
        (volume,) = (volume for volume in files.volumes if volume.name == "disk")
        return volume.used_bytes or 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.usage.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_figures_are_kept_for_the_period(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    disks.fill(100_000)
    async with disks.running():
        first = await disks.used()
        assert first >= 100_000
        disks.fill(500_000)
        await disks.clock.advance(59)
        assert await disks.used() == first
        await disks.clock.advance(2)
        assert await disks.used() >= 500_000


async def test_a_volume_in_memory_is_as_big_as_its_file_system(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    async with disks.running():
        files = (await disks.usage.of([POD]))[UID]
    ram = next(volume for volume in files.volumes if volume.name == "ram")
    assert ram.used_bytes is not None and ram.capacity_bytes is not None
    assert ram.capacity_bytes - (ram.available_bytes or 0) >= ram.used_bytes
    assert files.ephemeral == ("disk",)


async def test_pods_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    async with disks.running():
        assert (await disks.usage.of([POD])).keys() == {UID}
        assert await disks.usage.of([]) == {}
        disks.fill(300_000)
        assert await disks.used() >= 300_000, "measured again"


async def test_a_pod_without_directories_takes_nothing(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    async with disks.running():
        files = (await disks.usage.of([running_pod("new", "app")]))[PodUID("uid-new")]
    assert (files.volumes, files.logs, files.own) == ((), {}, None)


async def test_nothing_is_counted_where_it_is_switched_off(tmp_path: Path) -> None:
    assert await Disks(tmp_path, period=0).usage.of([POD]) == {}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (DISK, True),
        (RAM, False),
        (Volume(name="c", config_map=core.ConfigMapVolumeSource(name="c")), True),
        (Volume(name="s", secret=core.SecretVolumeSource(secret_name="s")), False),
        (Volume(name="h", host_path=core.HostPathVolumeSource(path="/")), False),
    ],
)
def test_volume_on_disk_of_the_pod_counts_as_ephemeral_storage(volume: Volume, expected: bool) -> None:
    assert is_ephemeral(volume) is expected


async def test_usage_of_storage_system_volumes_comes_from_their_plugin(tmp_path: Path) -> None:
    """Their directories are never looked at: they may hang."""

    async def sizes(pod: core.Pod) -> dict[str, VolumeSizes]:
        assert pod is POD
        return {"data": VolumeSizes("shop/claim", 1000, 700, 300, 10, 7, 3), "scratch": VolumeSizes()}

    (tmp_path / "pods" / UID / "volumes" / "kubernetes.io~csi" / "disk" / "mount").mkdir(parents=True)
    disks = Disks(tmp_path)
    disks.usage = DiskUsage(
        root_dir=tmp_path, pod_logs_dir=tmp_path / "logs", period=60.0, clock=disks.clock, others=sizes
    )
    async with disks.running():
        files = (await disks.usage.of([POD]))[UID]
    found = {volume.name: volume for volume in files.volumes}
    assert len(files.volumes) == 4 and "data" not in files.ephemeral
    data = found["data"]
    assert (data.capacity_bytes, data.available_bytes, data.used_bytes) == (1000, 700, 300)
    assert (data.inodes, data.inodes_free, data.inodes_used) == (10, 7, 3)
    assert data.pvc_ref == PvcReference(name="claim", namespace="shop")
    assert found["scratch"].pvc_ref is None


def _endless(monkeypatch: pytest.MonkeyPatch, uid: str) -> list[bool | None]:
    """The count of one pod never ends; what it is sent."""
    sent: list[bool | None] = []
    original = _PodWalk.walk

    def walk(self: _PodWalk, pod: core.Pod) -> WalkSteps:
        while pod.metadata.uid == uid and not (sent and sent[-1]):
            time.sleep(0.001)  # what it does
            sent.append((yield))
        return (yield from original(self, pod))

    monkeypatch.setattr(_PodWalk, "walk", walk)
    return sent


async def test_pod_with_endless_files_delays_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = Disks(tmp_path)
    disks.fill(100_000)
    _endless(monkeypatch, "uid-big")
    monkeypatch.setattr(volume_usage, "_SLICE", 0.01)
    monkeypatch.setattr(volume_usage, "_WAIT", 0.5)
    monkeypatch.setattr(volume_usage, "_CONCURRENT_WALKS", 1)
    big = running_pod("big", "app", volumes=(DISK,))
    async with disks.running():
        assert (await disks.usage.of([big, POD])).keys() == {UID}
        assert (await disks.usage.of([big, POD])).keys() == {UID}


async def test_walk_that_takes_too_long_ends_with_the_sum_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = Disks(tmp_path)
    disks.fill(100_000)
    sent = _endless(monkeypatch, UID)
    monkeypatch.setattr(volume_usage, "_SLICE", 0.01)
    monkeypatch.setattr(volume_usage, "_LONGEST", 0.05)
    async with disks.running():
        assert (await disks.used()) >= 0
        assert sent[-1] is True


async def test_failing_walk_of_a_pod_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disks = Disks(tmp_path)
    original = _PodWalk.walk

    def walk(self: _PodWalk, pod: core.Pod) -> WalkSteps:
        if pod.metadata.uid == "uid-bad":
            raise ValueError("no error that anyone foresaw")
        return original(self, pod)

    monkeypatch.setattr(_PodWalk, "walk", walk)
    bad = running_pod("bad", "app", volumes=(DISK,))
    async with disks.running():
        for _ in range(2):
            assert (await disks.usage.of([bad, POD])).keys() == {UID}
    assert [getattr(r, "item", "") for r in caplog.records if r.levelname == "ERROR"] == ["uid-bad"]


async def test_shorter_period_holds_for_figures_that_there_are(tmp_path: Path) -> None:
    disks = Disks(tmp_path, period=3600)
    disks.fill(100_000)
    async with disks.running():
        await disks.used()
        disks.fill(500_000)
        disks.usage.reconfigure(10)
        assert await disks.used() < 500_000
        await disks.clock.advance(11)
        assert await disks.used() >= 500_000
