"""A machine in a table, and the eviction manager that watches it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Transient
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.observe.eviction import EvictionConfig, EvictionDeps, EvictionManager
from pykubelet.kubelet.observe.eviction.eviction_types import (
    Amount,
    Disks,
    Reclaim,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.events import NO_ANNOTATIONS
from pykubelet.kubelet.types.resources.stats import MemoryStats, NodeStats, PodReference, PodStats, Summary, VolumeStats
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import time_from_unix
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry

NOW = time_from_unix(0)
HARD = Threshold(Signal.MEMORY, Amount(100))


@dataclass
class Machine:
    """The machine, its pods and what is done to them."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    seen: dict[Signal, SignalObservation] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    volumes: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    reclaiming: asyncio.Event | None = None
    """Reclaims wait for it."""
    graces: list[int] = field(default_factory=list)
    """Those by which evictable pods were asked for."""
    reclaimable: int = 0
    asked: int = 0
    lasting: set[PodUID] = field(default_factory=set)
    blind: bool = False
    ages: list[tuple[str, float]] = field(default_factory=list)
    measured: list[tuple[bool, Seconds | None]] = field(default_factory=list)
    growth: Mapping[Signal, tuple[Bytes, ...]] = field(default_factory=dict)
    looks: int = 0
    memory_looks: int = 0
    closed: bool = False
    layout: Disks = Disks()
    annotations: list[Mapping[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._alarm = Wakeup(self.clock)

    async def arm(self, growth: Mapping[Signal, tuple[Bytes, ...]]) -> None:
        self.growth = growth

    async def wait(self, seconds: Seconds) -> bool:
        self._alarm.clear()
        await self._alarm.sleep(seconds)
        return self._alarm.woken

    def close(self) -> None:
        self.closed = True

    def notify(self) -> None:
        """Wake the manager as the kernel does when memory may be short."""
        self._alarm.wake()

    def pressure(self, *thresholds: Threshold, max_grace: int = 0) -> EvictionManager:
        deps = EvictionDeps(
            observer=self,
            usage=self.usage,
            alarm=self,
            workers=self,
            reclaimer=self,
            telemetry=telemetry(self.clock, self, events=self),
        )
        return EvictionManager(deps, EvictionConfig(thresholds, max_grace=max_grace))

    def eviction_decided(self, signal: str, age: float) -> None:
        self.ages.append((signal, age))

    def short(self, signal: Signal = Signal.MEMORY, available: int = 50) -> None:
        self.seen[signal] = SignalObservation(available, 1000)

    async def read(self) -> dict[Signal, SignalObservation]:
        self.looks += 1
        if self.blind:
            raise Transient("no idea")
        return dict(self.seen)

    async def read_memory(self) -> dict[Signal, SignalObservation]:
        self.memory_looks += 1
        if self.blind:
            raise Transient("no idea")
        return {signal: seen for signal, seen in self.seen.items() if signal is Signal.MEMORY}

    async def usage(
        self, *, only_cpu_and_memory: bool = False, max_age: Seconds | None = None, rates: bool = True
    ) -> Summary:
        self.asked += 1
        self.measured.append((only_cpu_and_memory, max_age))
        return Summary(node=NodeStats(node_name="n"), pods=tuple(self.stats(pod) for pod in self.pods))

    def stats(self, pod: Pod) -> PodStats:
        meta = pod.metadata
        volumes = tuple(VolumeStats(time=NOW, name=name, used_bytes=used) for name, used in self.volumes.items())
        memory = MemoryStats(time=NOW, working_set_bytes=self.memory.get(meta.name, 0))
        ref = PodReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        return PodStats(pod_ref=ref, containers=(), memory=memory, volume=volumes)

    def evictable(self, grace_seconds: int) -> Iterable[Pod]:
        self.graces.append(grace_seconds)
        return list(self.pods)

    def fail(
        self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None, *, disrupts: bool = True
    ) -> None:
        self.done.append(f"{reason} {uid} {grace_seconds}{'' if disrupts else ' no disruption'}")
        self.pods = [pod for pod in self.pods if pod.metadata.uid != uid]

    def ended(self, uid: PodUID) -> bool:
        return uid not in self.lasting

    def disks(self) -> Disks:
        return self.layout

    async def reclaim(self, what: Collection[Reclaim]) -> None:
        self.done.append(f"reclaim {' '.join(sorted(what))}")
        if self.reclaiming is not None:
            await self.reclaiming.wait()
        before = self.seen[Signal.NODEFS]
        self.seen[Signal.NODEFS] = SignalObservation(before.available + self.reclaimable, before.capacity)

    def event(
        self,
        pod: PodRef | None,
        event_type: str,
        reason: str,
        message: str,
        *,
        container: str = "",
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        self.done.append(f"event {reason}")
        self.annotations.append(annotations)

    def evicted(self, signal: str) -> None:
        self.done.append(f"count {signal}")


@contextlib.asynccontextmanager
async def watching(machine: Machine, *thresholds: Threshold) -> AsyncIterator["asyncio.Task[None]"]:
    """The manager runs within the block, and closes the alarm at its end."""
    task = asyncio.create_task(machine.pressure(*thresholds).run())
    await machine.clock.settle()
    try:
        yield task
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert machine.closed
