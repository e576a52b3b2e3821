"""The sync loop and housekeeping over fakes."""

import asyncio
import errno
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Transient
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping, find_orphans
from pykubelet.kubelet.control.sync.loop import (
    ROOM_SECONDS,
    LoopEvent,
    PodsAffected,
    RoomMayHaveCome,
    RuntimeRecovered,
    look_for_room,
)
from pykubelet.kubelet.control.sync.ports import LoopDeps
from pykubelet.kubelet.types.admission import ADMITTED, Verdict
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.kubelet.types.probes import ProbeResult, ProbeType, ProbeUpdate
from pykubelet.kubelet.types.resize import Retry
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.updates import ANNOTATION_MIRROR, PodOp, PodUpdate, Source
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.control.fakes import make_pod

A, B, C = PodUID("a"), PodUID("b"), PodUID("c")


def in_runtime(uid: PodUID) -> RuntimePod:
    return RuntimePod(PodRef("default", uid, uid))


@dataclass(frozen=True)
class Granted:
    """A pod that gets another size."""

    pod: Pod
    preempts: tuple[PodUID, ...] = ()


@dataclass
class Around:
    """Everything around the loop."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    calls: list[str] = field(default_factory=list)
    workers: set[PodUID] = field(default_factory=set)
    runtime: list[RuntimePod] = field(default_factory=list)
    disk: set[PodUID] = field(default_factory=set)
    failing: set[PodUID] = field(default_factory=set)
    runtime_down: bool = False
    verdicts: dict[PodUID, Verdict] = field(default_factory=dict)
    waiting: list[Pod] = field(default_factory=list)
    granted: list[Granted] = field(default_factory=list)
    triggers: list[str] = field(default_factory=list)

    def deps(self) -> LoopDeps:
        return LoopDeps(DesiredPods(self.calls), self, self, self, self, self, self.clock)

    def update(self, pod: Pod) -> None:
        self.calls.append(f"update {pod.metadata.uid}")

    def reject(self, pod: Pod, reason: str, message: str) -> None:
        self.calls.append(f"reject {pod.metadata.uid} {reason}: {message}")

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        self.calls.append(f"fail {uid} {reason}: {message}")

    def remove(self, uid: PodUID, grace_seconds: int | None = None) -> None:
        self.calls.append(f"remove {uid}")

    def in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        return sorted(pods, key=lambda pod: pod.metadata.name)

    def admit(self, pod: Pod) -> Verdict:
        return self.verdicts.get(PodUID(pod.metadata.uid), ADMITTED)

    def reconsider(self) -> Iterable[Pod]:
        return self.waiting

    def updated(self, pod: Pod) -> Pod:
        return pod

    def grant(self, trigger: Retry = Retry.PERIODIC) -> Sequence[Granted]:
        self.triggers.append(trigger)
        granted, self.granted = self.granted, []
        return granted

    def forget(self, uid: PodUID) -> None:
        self.verdicts.pop(uid, None)

    def adopt_orphan(self, ref: PodRef) -> None:
        self.calls.append(f"orphan {ref.uid}")
        self.workers.add(ref.uid)

    def poke(self, uid: PodUID) -> None:
        self.calls.append(f"poke {uid}")

    def poke_all(self) -> None:
        self.calls.append("poke all")

    def known(self) -> Iterable[PodUID]:
        return self.workers

    def pod_seen(self, pod: Pod) -> None:
        self.calls.append(f"seen {pod.metadata.uid}")

    async def runtime_pods(self) -> list[RuntimePod]:
        if self.runtime_down:
            raise Transient("runtime down")
        return self.runtime

    async def pods_on_disk(self) -> set[PodUID]:
        return self.disk

    async def purge(self, uid: PodUID) -> None:
        if uid in self.failing:
            raise Transient("busy")
        self.calls.append(f"purge {uid}")
        self.disk.discard(uid)

    async def gc(self, keep: Callable[[], AbstractSet[PodUID]]) -> None:
        self.calls.append(f"gc {sorted(keep())}")


class DesiredPods:
    """Records what the pod manager is told."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def set(self, pod: Pod) -> None:
        self._calls.append(f"set {pod.metadata.uid}")

    def admitted(self, pod: Pod) -> None:
        self._calls.append(f"admitted {pod.metadata.uid}")

    def remove(self, uid: PodUID) -> None:
        self._calls.append(f"forget {uid}")

    def uids(self) -> Iterable[PodUID]:
        return ()


def update(op: PodOp) -> PodUpdate:
    return PodUpdate(op, Source.FILE, (make_pod("a"),))


@pytest.mark.parametrize(
    ("event", "calls"),
    [
        (update(PodOp.ADD), ["seen a", "set a", "admitted a", "update a"]),
        (update(PodOp.UPDATE), ["set a", "update a"]),
        (update(PodOp.DELETE), ["set a", "update a"]),
        (update(PodOp.REMOVE), ["forget a", "remove a"]),
        (update(PodOp.RECONCILE), ["set a"]),
        (PodUpdate(PodOp.ADD, Source.FILE, ()), []),
        (PodLifecycleEvent(A, PodEventType.CONTAINER_DIED), ["poke a"]),
        (PodLifecycleEvent(A, PodEventType.CONTAINER_REMOVED), []),
        (ProbeUpdate(A, ContainerID("c"), ProbeType.LIVENESS, ProbeResult.FAILURE), ["poke a"]),
        (PodsAffected(frozenset({A})), ["poke a"]),
        (RuntimeRecovered(), ["poke all"]),
    ],
)
async def test_each_event_reaches_those_it_concerns(event: LoopEvent, calls: list[str]) -> None:
    around = Around()
    loop = SyncLoop(around.deps())
    task = asyncio.create_task(loop.run())
    loop.post(event)
    await around.clock.settle()
    assert around.calls == calls
    task.cancel()
    await asyncio.wait([task])


async def test_the_loop_is_stuck_only_when_events_wait() -> None:
    around = Around()
    loop = SyncLoop(around.deps())
    await around.clock.advance(300)
    assert not loop.is_stuck(120)
    loop.post(RuntimeRecovered())
    assert loop.is_stuck(120)
    task = asyncio.create_task(loop.run())
    await around.clock.settle()
    assert not loop.is_stuck(120)
    task.cancel()
    await asyncio.wait([task])


def test_orphans_are_what_has_no_worker() -> None:
    found = find_orphans({A}, [in_runtime(A), in_runtime(B)], {A, B, C})
    assert [ref.uid for ref in found.pods] == [B]
    assert found.leftovers == (C,)


async def test_housekeeping_waits_for_the_sources_then_tidies_and_collects() -> None:
    around = Around(workers={A}, runtime=[in_runtime(A), in_runtime(B)], disk={A, B, C})
    ready = False
    task = asyncio.create_task(Housekeeping(around.deps(), lambda: ready).run())
    await around.clock.advance(30)
    assert not around.calls
    ready = True
    await around.clock.advance(0.2)
    assert around.calls == ["orphan b", "purge c", "gc ['a', 'b']"]
    await around.clock.advance(59)
    assert len(around.calls) == 3
    await around.clock.advance(2)
    assert around.calls[3:] == ["gc ['a', 'b']"]
    task.cancel()
    await asyncio.wait([task])


async def test_what_cannot_be_purged_does_not_keep_the_rest_and_is_tried_again() -> None:
    around = Around(disk={A, B}, failing={A})
    task = asyncio.create_task(Housekeeping(around.deps(), lambda: True).run())
    await around.clock.settle()
    assert around.calls == ["purge b", "gc []"]
    around.failing.clear()
    await around.clock.advance(10.1)
    assert around.calls == ["purge b", "gc []", "purge a"]
    task.cancel()
    await asyncio.wait([task])


async def test_orphans_that_raise_do_not_keep_the_rest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the error: the other pods and leftovers are handled, the item is logged once and retried."""
    around = Around(runtime=[in_runtime(A), in_runtime(B)], disk={C, PodUID("d")})
    adopt, purge = around.adopt_orphan, around.purge
    broken = {A, C}

    def fail_to_adopt(ref: PodRef) -> None:
        if ref.uid in broken:
            raise ValueError("no error that anyone foresaw")
        adopt(ref)

    async def fail_to_purge(uid: PodUID) -> None:
        if uid in broken:
            raise RecursionError("no error that anyone foresaw")
        await purge(uid)

    monkeypatch.setattr(around, "adopt_orphan", fail_to_adopt)
    monkeypatch.setattr(around, "purge", fail_to_purge)
    housekeeping = Housekeeping(around.deps(), lambda: True)
    task = asyncio.create_task(housekeeping.run())
    await around.clock.advance(25)
    assert {"orphan b", "purge d", "gc ['b']"} <= set(around.calls)
    assert not {"orphan a", "purge c"} & set(around.calls)
    assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 2
    broken.clear()
    await around.clock.advance(25)
    assert {"orphan a", "purge c"} <= set(around.calls)
    task.cancel()
    await asyncio.wait([task])


async def test_pods_that_cannot_be_listed_do_not_keep_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    around = Around(runtime=[in_runtime(A)])

    async def fail() -> set[PodUID]:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(around, "pods_on_disk", fail)
    task = asyncio.create_task(Housekeeping(around.deps(), lambda: True).run())
    await around.clock.settle()
    assert around.calls == ["orphan a", "gc ['a']"]
    task.cancel()
    await asyncio.wait([task])


async def test_a_runtime_that_is_down_only_delays_housekeeping() -> None:
    around = Around(disk={A}, runtime_down=True)
    task = asyncio.create_task(Housekeeping(around.deps(), lambda: True).run())
    await around.clock.advance(25)
    assert not around.calls
    around.runtime_down = False
    await around.clock.advance(10)
    assert around.calls == ["purge a", "gc []"]
    task.cancel()
    await asyncio.wait([task])


def test_new_pods_are_judged_in_order_and_make_room() -> None:
    around = Around(verdicts={A: Verdict("OutOfcpu", "too little"), B: Verdict(preempts=(C,))})
    loop = SyncLoop(around.deps())
    loop.handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("b", "b"), make_pod("a", "a"))))
    assert [call for call in around.calls if call.startswith(("reject", "fail", "update"))] == [
        "reject a OutOfcpu: too little",
        "fail c Preempting: Preempted in order to admit critical pod",
        "update b",
    ]


def test_a_pod_that_goes_is_forgotten_by_admission() -> None:
    around = Around(verdicts={A: Verdict("OutOfcpu", "too little")})
    loop = SyncLoop(around.deps())
    loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("a"),)))
    assert around.verdicts == {}


def test_when_a_pod_goes_those_turned_away_start_anew() -> None:
    around = Around(waiting=[make_pod("b")])
    loop = SyncLoop(around.deps())
    loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("a"),)))
    assert around.calls[-3:] == ["remove a", "remove b", "update b"]


@pytest.mark.parametrize("op", [PodOp.ADD, PodOp.UPDATE, PodOp.DELETE, PodOp.RECONCILE])
def test_a_mirror_pod_is_noted_and_never_run(op: PodOp) -> None:
    pod = make_pod("a")
    mirror = replace(pod, metadata=replace(pod.metadata, annotations={ANNOTATION_MIRROR: "hash"}))
    around = Around()
    SyncLoop(around.deps()).handle(PodUpdate(op, Source.API, (mirror,)))
    assert around.calls == ["set a"]


@pytest.mark.parametrize("op", [PodOp.ADD, PodOp.UPDATE, PodOp.REMOVE, PodOp.RECONCILE])
def test_whatever_happens_pods_that_wait_for_another_size_may_get_it(op: PodOp) -> None:
    around = Around()
    loop = SyncLoop(around.deps())
    around.granted.append(Granted(make_pod("b"), (C,)))
    loop.handle(PodUpdate(op, Source.API, (make_pod("a"),)))
    assert around.calls[-2:] == ["fail c Preempting: Preempted in order to admit critical pod", "update b"]
    others = {PodOp.ADD: "pods_added", PodOp.REMOVE: "pods_removed"}
    assert around.triggers == [others.get(op, "pod_updated")]


async def test_pods_that_wait_are_looked_at_now_and_then() -> None:
    around = Around()
    loop = SyncLoop(around.deps())
    events: list[LoopEvent] = []
    task = asyncio.ensure_future(look_for_room(around.clock, events.append))
    await around.clock.advance(ROOM_SECONDS * 2 + 1)
    task.cancel()
    assert events == [RoomMayHaveCome(), RoomMayHaveCome()]
    around.granted.append(Granted(make_pod("b")))
    loop.handle(events[0])
    assert around.calls == ["update b"]
