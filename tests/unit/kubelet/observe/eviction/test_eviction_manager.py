"""The watch over a machine in a table, and the reader of the real one."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.observe.eviction import Condition, EvictionConfig, EvictionDeps, EvictionManager
from pykubelet.kubelet.observe.eviction.eviction_manager import CHECK_SECONDS, pod_use
from pykubelet.kubelet.observe.eviction.eviction_types import (
    Amount,
    ContainerUse,
    Observation,
    PodUse,
    Signal,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.signal_observer import MachineObserver
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.stats import (
    ContainerStats,
    FsStats,
    MemoryStats,
    NodeStats,
    PodReference,
    PodStats,
    ProcessStats,
    Summary,
    VolumeStats,
)
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from tests.unit.kubelet.observe.eviction.test_thresholds import MI, make_pod

NOW = time_from_unix(0)
HARD = Threshold(Signal.MEMORY, Amount(100))
SOFT = Threshold(Signal.MEMORY, Amount(100), grace=20)
DISK = Threshold(Signal.NODEFS, Amount(100))


@dataclass
class Machine:
    """The machine, its pods and what is done to them."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    seen: dict[Signal, Observation] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    volumes: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    reclaimable: int = 0
    asked: int = 0
    lasting: set[PodUID] = field(default_factory=set)
    blind: bool = False
    ages: list[tuple[str, float]] = field(default_factory=list)

    def pressure(self, *thresholds: Threshold, max_grace: int = 0) -> EvictionManager:
        deps = EvictionDeps(
            observer=self,
            usage=self.usage,
            workers=self,
            reclaimer=self,
            telemetry=telemetry(self.clock, self, events=self),
        )
        return EvictionManager(deps, EvictionConfig(thresholds, max_grace=max_grace))

    def eviction_decided(self, signal: str, age: float) -> None:
        self.ages.append((signal, age))

    def short(self, signal: Signal = Signal.MEMORY, available: int = 50) -> None:
        self.seen[signal] = Observation(available, 1000)

    async def read(self) -> dict[Signal, Observation]:
        if self.blind:
            raise Transient("no idea")
        return dict(self.seen)

    async def usage(self) -> Summary:
        self.asked += 1
        return Summary(node=NodeStats(node_name="n"), pods=tuple(self.stats(pod) for pod in self.pods))

    def stats(self, pod: Pod) -> PodStats:
        meta = pod.metadata
        volumes = tuple(VolumeStats(time=NOW, name=name, used_bytes=used) for name, used in self.volumes.items())
        memory = MemoryStats(time=NOW, working_set_bytes=self.memory.get(meta.name, 0))
        ref = PodReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        return PodStats(pod_ref=ref, containers=(), memory=memory, volume=volumes)

    def active(self) -> Iterable[Pod]:
        return list(self.pods)

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        self.done.append(f"{reason} {uid} {grace_seconds}")
        self.pods = [pod for pod in self.pods if pod.metadata.uid != uid]

    def ended(self, uid: PodUID) -> bool:
        return uid not in self.lasting

    async def reclaim(self) -> None:
        self.done.append("reclaim")
        before = self.seen[Signal.NODEFS]
        self.seen[Signal.NODEFS] = Observation(before.available + self.reclaimable, before.capacity)

    def event(self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "") -> None:
        self.done.append(f"event {reason}")

    def evicted(self, signal: str) -> None:
        self.done.append(f"count {signal}")


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
    assert pressure.conditions() == {Condition.MEMORY}
    assert machine.ages == [("memory.available", 0.0)]


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
    assert machine.done[-1] == f"Evicted a {grace}"


async def test_disk_is_reclaimed_before_a_pod_is_evicted() -> None:
    machine = Machine(pods=[make_pod("a")], reclaimable=100)
    machine.short(Signal.NODEFS)
    pressure = machine.pressure(DISK)
    assert await pressure.check() == ()
    assert machine.done == ["event EvictionThresholdMet", "reclaim"]
    machine.short(Signal.NODEFS)
    machine.reclaimable = 0
    assert await pressure.check() == ["a"]


async def test_local_storage_limits_are_enforced() -> None:
    limited = make_pod("a", {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]})
    machine = Machine(pods=[limited, make_pod("b")], volumes={"v": 2 * MI})
    machine.short(available=500)
    assert await machine.pressure(HARD).check() == ["a"]
    assert machine.done == ["event Evicted", "count emptydirfs.limit", "Evicted a 1"]


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


def test_the_figures_of_a_pod() -> None:
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
        inodes=7,
        processes=2,
        containers={"c": ContainerUse(3, 10), "bare": ContainerUse()},
        volumes={"v": 9},
    )


async def test_signals_of_the_real_machine(tmp_path: Path) -> None:
    clock = VirtualClock()
    answers = ["", str(tmp_path), "never asked for"]

    async def image_path() -> str:
        return answers.pop(0)

    observer = MachineObserver(root_dir=tmp_path, image_path=image_path, clock=clock)
    first = await observer.read()
    assert Signal.IMAGEFS not in first
    second = await observer.read()
    assert second.keys() >= {Signal.MEMORY, Signal.PIDS, Signal.NODEFS, Signal.IMAGEFS}
    assert all(0 <= seen.available <= seen.capacity for seen in second.values())
    await observer.read()
    assert answers == ["never asked for"]
    assert (
        Signal.NODEFS
        not in await MachineObserver(root_dir=tmp_path / "absent", image_path=image_path, clock=clock).read()
    )
