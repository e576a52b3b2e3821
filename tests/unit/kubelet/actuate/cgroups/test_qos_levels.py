"""The cgroups above those of pods, on a fake cgroup file system, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.cgroups import (
    PodCgroupManager,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.actuate.cgroups.kit import (
    BEST_EFFORT,
    BURSTABLE,
    SignallingFiles,
    pod,
)


async def test_start_makes_the_levels(manager: PodCgroupManager, files: SignallingFiles) -> None:
    await manager.levels.start()
    assert manager.levels.problem is None
    assert files.content("kubepods/memory.max") == str(7 << 30)
    assert files.content("kubepods/pids.max") == "1000"
    assert files.content("kubepods/cpu.weight") == "59"
    assert files.content("kubepods/burstable/cpu.weight") == "1"
    assert files.content("kubepods/besteffort/cpu.weight") == "1"
    await manager.levels.start()


@asynccontextmanager
async def running(manager: PodCgroupManager, files: SignallingFiles) -> AsyncIterator[None]:
    files.loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.levels.run())
        yield
        task.cancel()


async def burstable_weight(files: SignallingFiles, clock: VirtualClock, weight: str) -> None:
    """Let time pass until the class has this weight; the writing thread is not on the virtual clock."""
    while files.content("kubepods/burstable/cpu.weight") != weight:
        await clock.advance(1)


async def test_the_weight_of_the_class_follows_its_pods(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    await manager.levels.start()
    async with running(manager, files), asyncio.timeout(10):
        await manager.ensure_pod(BURSTABLE)
        await manager.ensure_pod(pod("u-2", {"cpu": "1500m"}))
        await burstable_weight(files, clock, "79")
        await manager.remove_pod(PodUID("u-2"))
        await burstable_weight(files, clock, "20")


async def test_nothing_is_written_while_nothing_changes(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    await manager.levels.start()
    files.writes.clear()
    async with running(manager, files), asyncio.timeout(10):
        await clock.advance(59)
        assert files.writes == []
        await clock.advance(2)
        await files.written.wait()


async def test_a_refused_write_is_tried_again(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await manager.levels.start()
    async with running(manager, files), asyncio.timeout(10):
        files.refuse = Transient("busy")
        manager.resized(pod("u-1", {"cpu": "1"}))
        await clock.advance(1)
        await files.refused.wait()
        files.refuse = None
        await burstable_weight(files, clock, "39")
    assert [getattr(r, "loop", "") for r in caplog.records if r.levelname == "WARNING"] == ["cgroups.levels"]


async def test_transient_start_error_is_retried(
    manager: PodCgroupManager, files: SignallingFiles, clock: VirtualClock
) -> None:
    files.refuse, files.loop = Transient("systemd is not responding"), asyncio.get_running_loop()
    reported: list[tuple[bool, str]] = []
    manager.levels.retried.subscribe(lambda worked, text: reported.append((worked, text)))
    assert await manager.levels.start() == []
    assert (
        manager.levels.unenforced == 'Failed to update Node Allocatable Limits "/kubepods": systemd is not responding'
    )
    assert manager.levels.problem is None
    assert await manager.ensure_pod(BEST_EFFORT) == "/kubepods/besteffort/podu-best"
    files.refused.clear()
    task = asyncio.create_task(manager.levels.run())
    async with asyncio.timeout(10):
        await clock.advance(1)
        await files.refused.wait()
        files.refuse = None
        while len(reported) < 2:
            await clock.advance(61)
    assert files.content("kubepods/burstable/cpu.weight") == "1"
    await clock.advance(200)
    assert reported == [
        (False, 'Failed to update Node Allocatable Limits "/kubepods": systemd is not responding'),
        (True, "Updated Node Allocatable limit across pods"),
    ]
    assert [manager.levels.unenforced] == [None]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
