"""The watch over a machine in a table, and the reader of the real one."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.base.units import Bytes
from pykubelet.kubelet.observe.eviction import PressureCondition
from pykubelet.kubelet.observe.eviction.eviction_manager import CHECK_SECONDS, QUIET_SECONDS, pod_use
from pykubelet.kubelet.observe.eviction.eviction_types import (
    Amount,
    ContainerUse,
    Disks,
    DiskUse,
    PodUse,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.signal_observer import ImageDisks, MachineObserver
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.stats import (
    ContainerStats,
    FsStats,
    MemoryStats,
    PodReference,
    PodStats,
    ProcessStats,
    VolumeStats,
)
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver, CgroupResources, CgroupStats
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.observe.eviction.build import MI, make_pod
from tests.unit.kubelet.observe.eviction.machine import HARD, NOW, Machine, watching

GI = 1 << 30
SOFT = Threshold(Signal.MEMORY, Amount(100), grace=20)
DISK = Threshold(Signal.NODEFS, Amount(100))


def static(name: str) -> Pod:
    pod = make_pod(name)
    pod.metadata.annotations[ANNOTATION_SOURCE] = "file"
    return pod


async def test_usage_is_not_read_without_pressure() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.short(available=500)
    pressure = machine.pressure(HARD)
    assert await pressure.check() == ()
    assert (machine.done, machine.asked, pressure.conditions()) == ([], 0, frozenset())


async def test_pod_with_the_largest_excess_is_evicted_at_once() -> None:
    machine = Machine(pods=[make_pod("a"), make_pod("b")], memory={"a": 1, "b": 2})
    machine.short()
    pressure = machine.pressure(HARD)
    assert await pressure.check() == ["b"]
    assert machine.done == [
        "event EvictionThresholdMet",
        "event Evicted",
        "count memory.available",
        "Evicted b 1",
    ]
    assert pressure.conditions() == {PressureCondition.MEMORY}
    assert machine.ages == [("memory.available", 0.0)]
    assert [each.get("starved_resource") for each in machine.annotations] == [None, "memory"]


async def test_pod_that_cannot_be_ranked_keeps_no_other_from_being_evicted() -> None:
    bad = make_pod("bad", {"priority": 1}, requests={"memory": "much"})
    worse = make_pod("worse", requests={"memory": "more"})
    machine = Machine(pods=[bad, worse, make_pod("a")], memory={"bad": 9, "worse": 9, "a": 1})
    machine.short()
    pressure = machine.pressure(HARD)
    assert await pressure.check() == ["a"]
    assert await pressure.check() == ["worse"], "pods without a rank come last, in the order of priority"
    assert await pressure.check() == ["bad"]


async def test_pod_that_cannot_be_evicted_is_followed_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(pods=[make_pod("a"), make_pod("b")], memory={"a": 1, "b": 2})
    machine.short()
    end = machine.fail

    def fail(uid: PodUID, *given: Any, **more: Any) -> None:
        if uid == "b":
            raise ValueError("no error that anyone foresaw")
        end(uid, *given, **more)

    monkeypatch.setattr(machine, "fail", fail)
    assert await machine.pressure(HARD).check() == ["a"]


async def test_static_pods_are_never_evicted() -> None:
    machine = Machine(pods=[static("s"), make_pod("a")], memory={"s": 99})
    machine.short()
    assert await machine.pressure(HARD).check() == ["a"]
    machine = Machine(pods=[static("s")])
    machine.short()
    assert await machine.pressure(HARD).check() == ()
    assert machine.asked == 0


@pytest.mark.parametrize(("max_grace", "own", "grace"), [(30, 5, 5), (3, 5, 3), (30, None, 30)])
async def test_soft_evictions_wait_and_leave_time(max_grace: int, own: int | None, grace: int) -> None:
    machine = Machine(pods=[make_pod("a", {"terminationGracePeriodSeconds": own} if own else {})])
    machine.short()
    pressure = machine.pressure(SOFT, max_grace=max_grace)
    assert await pressure.check() == ()
    await machine.clock.advance(20)
    await pressure.check()
    assert (machine.done[-1], machine.graces[-1]) == (f"Evicted a {grace}", max_grace)


async def test_disk_is_reclaimed_before_a_pod_is_evicted() -> None:
    machine = Machine(pods=[make_pod("a")], reclaimable=100)
    machine.short(Signal.NODEFS)
    pressure = machine.pressure(DISK)
    assert await pressure.check() == ()
    assert machine.done == ["event EvictionThresholdMet", "reclaim containers images"]
    machine.short(Signal.NODEFS)
    machine.reclaimable = 0
    assert await pressure.check() == ["a"] and set(machine.graces) == {1}


async def test_pod_is_evicted_for_memory_while_the_disk_is_reclaimed() -> None:
    """The removal of many images takes minutes, in which a pod may use all memory."""
    going_on = asyncio.Event()
    machine = Machine(pods=[make_pod("a"), make_pod("b")], reclaimable=100, reclaiming=going_on)
    machine.short(available=500)
    machine.short(Signal.NODEFS)
    machine.memory = {"a": 10, "b": 99}
    check = asyncio.create_task(machine.pressure(HARD, DISK).check())
    await machine.clock.settle()
    machine.short()
    machine.notify()
    await machine.clock.advance(0)
    assert machine.done[1:] == [
        "reclaim containers images",
        "event EvictionThresholdMet",
        "event Evicted",
        "count memory.available",
        "Evicted b 1",
    ]
    machine.short(available=500)
    going_on.set()
    assert await check == ()


async def test_local_storage_limits_are_enforced() -> None:
    limited = make_pod("a", {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]})
    machine = Machine(pods=[limited, make_pod("b")], volumes={"v": 2 * MI})
    machine.short(available=500)
    assert await machine.pressure(HARD).check() == ["a"]
    assert machine.done == ["event Evicted", "count emptydirfs.limit", "Evicted a 1 no disruption"]


async def test_rounds_wait_for_pods_to_end_and_survive_failures() -> None:
    machine = Machine(pods=[make_pod("a"), make_pod("b")], lasting={PodUID("a"), PodUID("b")})
    machine.short()
    task = asyncio.create_task(machine.pressure(HARD).run())
    await machine.clock.settle()
    assert len([line for line in machine.done if line.startswith("Evicted")]) == 1
    await machine.clock.advance(5)
    assert len(machine.pods) == 1
    machine.lasting.clear()
    await machine.clock.advance(1)
    assert machine.pods == []
    machine.blind = True
    await machine.clock.advance(2 * CHECK_SECONDS)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_notification_of_the_kernel_leads_to_an_eviction_with_fresh_figures_at_once() -> None:
    machine = Machine(pods=[make_pod("a"), make_pod("b")], memory={"b": 2})
    machine.seen[Signal.MEMORY] = SignalObservation(GI, 2 * GI)
    async with watching(machine, HARD):
        assert machine.growth == {Signal.MEMORY: (GI - 99,)}
        machine.short()
        machine.notify()
        await machine.clock.settle()
        assert "Evicted b 1" in machine.done
        assert machine.measured[0] == (True, 1.0)


async def test_notification_without_shortage_costs_one_reading_of_memory() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.seen[Signal.MEMORY] = SignalObservation(20 * GI, 30 * GI)
    async with watching(machine, HARD):
        machine.notify()
        await machine.clock.settle()
        assert (machine.looks, machine.memory_looks) == (1, 1)
        await machine.clock.advance(CHECK_SECONDS + QUIET_SECONDS)
        assert machine.looks == 2


async def test_quiet_machine_is_read_once_every_ten_seconds() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.seen[Signal.MEMORY] = SignalObservation(20 * GI, 30 * GI)
    async with watching(machine, HARD):
        for looks in range(2, 5):
            await machine.clock.advance(CHECK_SECONDS)
            assert (machine.looks, machine.memory_looks) == (looks, 0)


async def test_storm_of_notifications_costs_ten_readings_of_memory_per_second() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.seen[Signal.MEMORY] = SignalObservation(20 * GI, 30 * GI)
    async with watching(machine, HARD):
        for _ in range(1000):
            machine.notify()
            await machine.clock.advance(0.009)
        assert machine.looks == 1
        assert 60 <= machine.memory_looks <= 9 / QUIET_SECONDS + 1


async def test_known_shortage_without_a_pod_to_evict_is_looked_at_every_ten_seconds_only() -> None:
    machine = Machine(pods=[static("s")])
    machine.short()
    async with watching(machine, HARD):
        for _ in range(8):
            machine.notify()
            await machine.clock.advance(1)
        assert (machine.looks, machine.done.count("event EvictionThresholdMet")) == (1, 1)


async def test_memory_that_is_nearly_short_is_read_twice_a_second_without_a_notification() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.short(available=150)
    async with watching(machine, HARD):
        await machine.clock.advance(0.5)
        assert machine.memory_looks == 1
        machine.short()
        await machine.clock.advance(0.5)
        assert "Evicted a 1" in machine.done


async def test_memory_that_cannot_be_read_leaves_the_periodic_look() -> None:
    machine = Machine(pods=[make_pod("a")])
    machine.short(available=150)
    async with watching(machine, HARD) as task:
        machine.blind = True
        await machine.clock.advance(3 * CHECK_SECONDS)
        assert not task.done()
        machine.blind = False
        machine.short()
        await machine.clock.advance(CHECK_SECONDS)
        assert "Evicted a 1" in machine.done


async def test_without_a_threshold_of_memory_only_the_periodic_look_is_left() -> None:
    machine = Machine(pods=[make_pod("a")], reclaimable=100)
    machine.short(available=150)
    machine.seen[Signal.NODEFS] = SignalObservation(500, 1000)
    async with watching(machine, DISK):
        await machine.clock.advance(CHECK_SECONDS)
        assert (machine.looks, machine.memory_looks, machine.growth) == (2, 0, {})


def test_use_of_a_pod_is_summed_over_its_containers() -> None:
    fs = FsStats(time=NOW, used_bytes=5, inodes_used=7)
    stats = PodStats(
        pod_ref=PodReference(name="p", namespace="d", uid="u"),
        containers=(
            ContainerStats(name="c", memory=MemoryStats(time=NOW, working_set_bytes=3), rootfs=fs, logs=fs),
            ContainerStats(name="bare"),
        ),
        memory=MemoryStats(time=NOW, working_set_bytes=4),
        ephemeral_storage=fs,
        process_stats=ProcessStats(process_count=2),
        volume=(VolumeStats(time=NOW, name="v", used_bytes=9), VolumeStats(time=NOW, name="w")),
    )
    assert pod_use(stats) == PodUse(
        memory=4,
        disk=5,
        processes=2,
        containers={"c": ContainerUse(3, DiskUse(5, 7), DiskUse(5, 7)), "bare": ContainerUse()},
        volumes={"v": DiskUse(9, 0)},
    )


async def test_disk_signal_reclaims_what_is_on_its_file_system() -> None:
    machine = Machine(pods=[make_pod("a")], reclaimable=1000, layout=Disks(own_images=True))
    machine.short(Signal.NODEFS)
    machine.seen[Signal.IMAGEFS] = SignalObservation(500, 1000)
    assert await machine.pressure(DISK).check() == ["a"]
    assert not [line for line in machine.done if line.startswith("reclaim")]


async def test_container_disk_follows_the_threshold_of_its_file_system() -> None:
    machine = Machine(pods=[make_pod("a")], layout=Disks(own_images=True, own_containers=True))
    machine.seen[Signal.NODEFS] = SignalObservation(500, 1000)
    machine.seen[Signal.CONTAINERFS] = SignalObservation(50, 1000)
    pressure = machine.pressure(DISK)
    assert await pressure.check() == ["a"]
    assert (machine.done[1], machine.done[3]) == ("reclaim containers", "count containerfs.available")
    assert pressure.conditions() == {PressureCondition.DISK}


async def test_reclaim_is_enough_only_if_the_minimum_of_each_threshold_is_reached() -> None:
    more = Threshold(Signal.NODEFS, Amount(100), reclaim=Amount(80))
    for reclaimable, evicted in ((120, ["a"]), (130, [])):
        machine = Machine(pods=[make_pod("a")], reclaimable=reclaimable)
        machine.short(Signal.NODEFS)
        assert list(await machine.pressure(more).check()) == evicted


class PodsCgroup:
    """The memory of the pods' cgroup; other methods of the driver are not used."""

    def __init__(self, used: int | None, limit: int | None) -> None:
        self._used, self._limit = used, limit

    def stats(self, path: str) -> CgroupStats:
        if path != "/kubepods":
            raise NotFound(path)
        return CgroupStats(memory_working_set=None if self._used is None else Bytes(self._used))

    def limits(self, path: str) -> CgroupResources:
        return CgroupResources(memory_max=None if self._limit is None else Bytes(self._limit))


@pytest.mark.parametrize(
    ("used", "limit", "path", "expected"),
    [
        (300, 1000, "/kubepods", SignalObservation(700, 1000)),
        (1200, 1000, "/kubepods", SignalObservation(0, 1000)),
        (None, 1000, "/kubepods", None),
        (300, 1000, "/absent", None),
    ],
)
async def test_allocatable_memory_is_the_rest_of_the_limit_of_all_pods(
    tmp_path: Path, used: int | None, limit: int | None, path: str, expected: SignalObservation | None
) -> None:
    pods = (cast("CgroupDriver", PodsCgroup(used, limit)), path)
    observer = MachineObserver(root_dir=tmp_path, image_disks=no_disks, clock=VirtualClock(), pods=pods)
    assert (await observer.read_memory()).get(Signal.ALLOCATABLE_MEMORY) == expected


@pytest.mark.parametrize("limit", [None, UNLIMITED, 1 << 62])
async def test_allocatable_memory_without_a_limit_is_that_of_the_machine(tmp_path: Path, limit: int | None) -> None:
    pods = (cast("CgroupDriver", PodsCgroup(300, limit)), "/kubepods")
    observer = MachineObserver(root_dir=tmp_path, image_disks=no_disks, clock=VirtualClock(), pods=pods)
    seen = await observer.read_memory()
    capacity = seen[Signal.MEMORY].capacity
    assert seen[Signal.ALLOCATABLE_MEMORY] == SignalObservation(capacity - 300, capacity)


async def no_disks() -> ImageDisks:
    return ImageDisks()


async def test_signals_of_the_real_machine(tmp_path: Path) -> None:
    clock = VirtualClock()
    answers = [ImageDisks(), ImageDisks(images=str(tmp_path), containers="/proc"), ImageDisks(images="never asked for")]

    async def image_disks() -> ImageDisks:
        return answers.pop(0)

    observer = MachineObserver(root_dir=tmp_path, image_disks=image_disks, clock=clock)
    first = await observer.read()
    assert Signal.IMAGEFS not in first
    assert observer.disks() == Disks()
    second = await observer.read()
    assert (await observer.read_memory()).keys() == {Signal.MEMORY}
    assert second.keys() >= {Signal.MEMORY, Signal.PIDS, Signal.NODEFS, Signal.IMAGEFS}
    assert all(0 <= seen.available <= seen.capacity for seen in second.values())
    await observer.read()
    assert len(answers) == 1
    assert observer.disks() == Disks(own_images=False, own_containers=True)
    assert (
        Signal.NODEFS
        not in await MachineObserver(root_dir=tmp_path / "absent", image_disks=image_disks, clock=clock).read()
    )
