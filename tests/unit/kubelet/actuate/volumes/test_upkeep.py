"""Upkeep of volumes that are set up: what hangs or fails there does not keep a pod from its sync."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes import VolumeDeps, VolumeManager
from pykubelet.kubelet.actuate.volumes.attachment import AttachPatience
from pykubelet.kubelet.actuate.volumes.csi import CsiVolumes
from pykubelet.kubelet.actuate.volumes.mount import upkeep
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import PersistentVolumeClaim, Pod
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until
from tests.unit.kubelet.actuate.volumes.build import UID, Claims, Images, Kit, using


class Csi:
    """CSI volumes of a driver that requires them to be published again."""

    def __init__(self) -> None:
        self.is_stale = False
        self.error: Exception | None = None
        self.hangs = False
        self.begun: list[PodUID] = []
        self.going = 0

    def is_due(self, pod: Pod, source: Source) -> bool:
        return self.is_stale

    def has_volumes(self, uid: PodUID) -> bool:
        return True

    async def set_up(self, pod: Pod, source: Source, patience: AttachPatience) -> None:
        self.begun.append(ref_of(pod).uid)
        self.going += 1
        try:
            if self.hangs:
                await asyncio.Event().wait()
            if self.error is not None:
                raise self.error
        finally:
            self.going -= 1

    async def tear_down(self, uid: PodUID) -> None:
        assert not self.going, "calls for one pod must not overlap"


class HangingClaims(Claims):
    """Claims of an API server that does not respond any more."""

    hangs = False

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().claim(namespace, name)


@pytest.fixture
def claims() -> HangingClaims:
    made = HangingClaims()
    made.specs["c"] = {"csi": {"driver": "d", "volumeHandle": "v"}}
    return made


@pytest.fixture
def csi() -> Csi:
    return Csi()


@pytest.fixture
def kit(tmp_path: Path, claims: HangingClaims, csi: Csi) -> Kit:
    made = Kit(tmp_path / "root")
    deps = VolumeDeps(images=Images(), claims=claims, csi=cast(CsiVolumes, csi), telemetry=made.telemetry)
    made.manager = VolumeManager(dirs=made.dirs, deps=deps)
    return made


async def test_driver_that_hangs_when_it_publishes_again_does_not_delay_the_sync(
    kit: Kit, csi: Csi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_BRIEFLY", 0.01)
    await kit.mount(using("c"))
    csi.is_stale = csi.hangs = True
    async with asyncio.timeout(10):
        await kit.mount(using("c"))
        await kit.mount(using("c"))
        assert csi.begun == [UID, UID], "one round at a time"
        await kit.manager.unmount(UID)


async def test_api_server_that_hangs_does_not_delay_the_sync(
    kit: Kit, claims: HangingClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_BRIEFLY", 0.01)
    await kit.mount(using("c"))
    assert isinstance(kit.clock, VirtualClock)
    await kit.clock.advance(61)
    claims.hangs = True
    async with asyncio.timeout(10):
        await kit.mount(using("c"))
        await kit.manager.unmount(UID)


async def test_volume_that_is_not_published_again_is_reported(kit: Kit, csi: Csi) -> None:
    await kit.mount(using("c"))
    csi.is_stale, csi.error = True, Transient("no answer")
    await kit.mount(using("c"))
    assert kit.events.seen == [
        ("FailedMount", 'MountVolume.SetUp failed for volume "pv-c" (of claim shop/c) : no answer')
    ]


async def test_round_that_raises_fails_neither_the_pod_nor_others(kit: Kit, csi: Csi) -> None:
    other = using("c")
    other = replace(other, metadata=replace(other.metadata, uid="u-2"))
    for pod in (using("c"), other):
        await kit.mount(pod)
    csi.is_stale, csi.error = True, RuntimeError("a defect")
    await kit.mount(using("c"))
    csi.error = None
    await kit.mount(other)
    await until(lambda: not csi.going)
    assert csi.begun == [UID, PodUID("u-2"), UID, PodUID("u-2")]
