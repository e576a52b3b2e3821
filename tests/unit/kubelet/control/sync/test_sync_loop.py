"""The sync loop and housekeeping over fakes."""

import asyncio
import errno

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.events import (
    RETRY_SECONDS,
    LoopEvent,
    NodeRead,
    PeriodicRetry,
    PodsAffected,
    RuntimeRecovered,
    post_periodic_retries,
)
from pykubelet.kubelet.control.sync.housekeeping import Housekeeping
from pykubelet.kubelet.types.admission import NODE_AFFINITY, AdmissionVerdict
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.kubelet.types.probes import ProbeResult, ProbeType, ProbeUpdate
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.updates import ANNOTATION_MIRROR, PodOp, PodUpdate, Source
from tests.unit.kubelet.control.fakes import make_pod
from tests.unit.kubelet.control.sync.fakes import GrantedResize, LoopFakes

A, B, C, D = PodUID("a"), PodUID("b"), PodUID("c"), PodUID("d")


def in_runtime(uid: PodUID) -> RuntimePod:
    return RuntimePod(PodRef("default", uid, uid))


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
        (ProbeUpdate(A, ContainerID("c"), ProbeType.LIVENESS, ProbeResult.FAILURE), ["poke a probed"]),
        (PodsAffected(frozenset({A})), ["poke a"]),
        (RuntimeRecovered(), ["poke all"]),
    ],
)
async def test_event_wakes_the_workers_concerned(event: LoopEvent, calls: list[str]) -> None:
    fakes = LoopFakes()
    loop = SyncLoop(fakes.deps(), fakes.queue)
    task = asyncio.create_task(loop.run())
    fakes.queue.post(event)
    await fakes.clock.settle()
    assert fakes.calls == calls
    task.cancel()
    await asyncio.wait([task])


async def test_loop_is_stuck_only_while_events_wait() -> None:
    fakes = LoopFakes()
    loop = SyncLoop(fakes.deps(), fakes.queue)
    await fakes.clock.advance(300)
    assert not loop.is_stuck(120)
    fakes.queue.post(RuntimeRecovered())
    assert loop.fault(120) is None, "the event has come just now, after a quiet time"
    await fakes.clock.advance(121)
    fakes.queue.post(RuntimeRecovered())
    assert loop.is_stuck(120)
    task = asyncio.create_task(loop.run())
    await fakes.clock.settle()
    assert not loop.is_stuck(120)
    task.cancel()
    await asyncio.wait([task])


async def test_dead_containers_do_not_pile_up_while_a_source_cannot_be_read() -> None:
    """Without the API server, the sources may not be read for days, and a static pod may crash all the time."""
    fakes = LoopFakes(runtime=[in_runtime(A)], disk={A})
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: False).run())
    await fakes.clock.advance(59)
    assert fakes.calls == []
    await fakes.clock.advance(62)
    assert fakes.calls == ["gc of all pods"] * 2
    task.cancel()
    await asyncio.wait([task])


async def test_housekeeping_begins_after_all_sources_were_read() -> None:
    fakes = LoopFakes(workers={A}, runtime=[in_runtime(A), in_runtime(B)], disk={A, B, C})
    ready = False
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: ready).run())
    await fakes.clock.advance(30)
    assert not fakes.calls
    ready = True
    await fakes.clock.advance(0.2)
    assert sorted(fakes.calls) == ["gc ['a', 'b']", "orphan b", "purge c"]
    await fakes.clock.advance(59)
    assert len(fakes.calls) == 3
    await fakes.clock.advance(2)
    assert fakes.calls[3:] == ["gc ['a', 'b']"]
    task.cancel()
    await asyncio.wait([task])


async def test_pods_of_a_source_without_a_worker_are_no_orphans() -> None:
    fakes = LoopFakes(runtime=[in_runtime(A), in_runtime(B)], disk={A, B, C, D}, sourced={A, C})
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: True).run())
    await fakes.clock.settle()
    assert sorted(fakes.calls) == ["gc ['a', 'b', 'c']", "orphan b", "purge d"]
    fakes.sourced.clear()  # they have been deleted
    await fakes.clock.advance(10.1)
    assert {"orphan a", "purge c"} <= set(fakes.calls)
    task.cancel()
    await asyncio.wait([task])


async def test_failing_purge_does_not_delay_others_and_is_retried() -> None:
    fakes = LoopFakes(disk={A, B}, failing={A})
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: True).run())
    await fakes.clock.settle()
    assert sorted(fakes.calls) == ["gc []", "purge b"]
    fakes.failing.clear()
    await fakes.clock.advance(10.1)
    assert fakes.calls[2:] == ["purge a"]
    task.cancel()
    await asyncio.wait([task])


async def test_slow_purge_delays_neither_others_nor_later_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = LoopFakes(disk={A})
    purge, released, begun = fakes.purge, asyncio.Event(), 0

    async def slow(uid: PodUID) -> None:
        nonlocal begun
        if uid == A:
            begun += 1
            await released.wait()
        await purge(uid)

    monkeypatch.setattr(fakes, "purge", slow)
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: True).run())
    await fakes.clock.settle()
    assert fakes.calls == ["gc []"]
    fakes.disk.add(B)
    await fakes.clock.advance(25)
    assert fakes.calls == ["gc []", "purge b"]
    assert begun == 1
    released.set()
    await fakes.clock.advance(10)
    assert fakes.calls[2:] == ["purge a"]
    task.cancel()
    await asyncio.wait([task])


async def test_failing_orphan_does_not_delay_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With every error, the other pods and leftovers are handled, and the item is logged once and retried."""
    fakes = LoopFakes(runtime=[in_runtime(A), in_runtime(B)], disk={C, PodUID("d")})
    adopt, purge = fakes.adopt_orphan, fakes.purge
    broken = {A, C}

    def fail_to_adopt(ref: PodRef) -> None:
        if ref.uid in broken:
            raise ValueError("no error that anyone foresaw")
        adopt(ref)

    async def fail_to_purge(uid: PodUID) -> None:
        if uid in broken:
            raise RecursionError("no error that anyone foresaw")
        await purge(uid)

    monkeypatch.setattr(fakes, "adopt_orphan", fail_to_adopt)
    monkeypatch.setattr(fakes, "purge", fail_to_purge)
    housekeeping = Housekeeping(fakes.housekeeping_deps(), lambda: True)
    task = asyncio.create_task(housekeeping.run())
    await fakes.clock.advance(25)
    assert {"orphan b", "purge d", "gc ['b']"} <= set(fakes.calls)
    assert not {"orphan a", "purge c"} & set(fakes.calls)
    assert fakes.swept[:2] == [(2, 0), (1, 1)]
    assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 2
    broken.clear()
    await fakes.clock.advance(25)
    assert {"orphan a", "purge c"} <= set(fakes.calls)
    task.cancel()
    await asyncio.wait([task])


async def test_failing_pod_list_does_not_prevent_gc(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = LoopFakes(runtime=[in_runtime(A)])

    async def fail() -> set[PodUID]:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(fakes, "pods_on_disk", fail)
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: True).run())
    await fakes.clock.settle()
    assert fakes.calls == ["orphan a", "gc ['a']"]
    task.cancel()
    await asyncio.wait([task])


async def test_housekeeping_continues_after_the_runtime_was_down() -> None:
    fakes = LoopFakes(disk={A}, runtime_down=True)
    task = asyncio.create_task(Housekeeping(fakes.housekeeping_deps(), lambda: True).run())
    await fakes.clock.advance(25)
    assert not fakes.calls
    assert fakes.reported == ["Warning ContainerGCFailed: runtime down"]
    await fakes.clock.advance(45)
    assert fakes.reported == ["Warning ContainerGCFailed: runtime down"] * 2, "once a minute"
    fakes.runtime_down = False
    await fakes.clock.advance(10)
    assert sorted(fakes.calls) == ["gc []", "purge a"]
    fakes.runtime_down = True
    await fakes.clock.advance(30)
    assert len(fakes.reported) == 2, "no collection was due"
    task.cancel()
    await asyncio.wait([task])


def test_new_pods_are_admitted_in_order_and_preempt_others() -> None:
    fakes = LoopFakes(verdicts={A: AdmissionVerdict("OutOfcpu", "too little"), B: AdmissionVerdict(preempts=(C,))})
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("b", "b"), make_pod("a", "a"))))
    assert [call for call in fakes.calls if call.startswith(("reject", "fail", "update"))] == [
        "reject a OutOfcpu: too little",
        "fail c Preempting: Preempted in order to admit critical pod",
        "update b",
    ]


MISLABELLED = AdmissionVerdict(NODE_AFFINITY, "no such label")


def test_pod_that_only_labels_keep_out_is_admitted_when_the_node_has_been_read_again() -> None:
    fakes = LoopFakes(verdicts={A: MISLABELLED, B: MISLABELLED}, node_reads=0)
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.API, (make_pod("a"),)))
    loop.handle(PodUpdate(PodOp.ADD, Source.API, (make_pod("b"),)))
    loop.handle(PodUpdate(PodOp.UPDATE, Source.API, (make_pod("b", "newer"),)))
    assert not [call for call in fakes.calls if call.startswith(("update", "reject"))]
    del fakes.verdicts[A]
    loop.handle(NodeRead(1))
    assert [call for call in fakes.calls if call.startswith(("update", "reject"))] == ["update a"]
    loop.handle(NodeRead(2))
    assert fakes.calls[-1] == "reject b NodeAffinity: no such label"
    loop.handle(NodeRead(3))
    assert fakes.calls[-1] == "reject b NodeAffinity: no such label"


def test_pod_removed_while_the_node_is_read_again_is_not_admitted() -> None:
    fakes = LoopFakes(verdicts={A: MISLABELLED}, node_reads=0)
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.API, (make_pod("a"),)))
    loop.handle(PodUpdate(PodOp.REMOVE, Source.API, (make_pod("a"),)))
    fakes.calls.clear()
    loop.handle(NodeRead(1))
    assert fakes.calls == []


def test_pod_is_rejected_at_once_for_labels_without_an_api_server() -> None:
    fakes = LoopFakes(verdicts={A: MISLABELLED})
    SyncLoop(fakes.deps(), fakes.queue).handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("a"),)))
    assert fakes.calls[-1] == "reject a NodeAffinity: no such label"


def test_removed_pod_is_forgotten_by_admission() -> None:
    fakes = LoopFakes(verdicts={A: AdmissionVerdict("OutOfcpu", "too little")})
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("a"),)))
    assert fakes.verdicts == {}


def test_removed_pod_lets_rejected_pods_restart() -> None:
    fakes = LoopFakes(waiting=[make_pod("b")])
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("a"),)))
    assert fakes.calls[-3:] == ["remove a", "remove b", "update b"]


def test_rejected_pods_are_reconsidered_periodically() -> None:
    """A failed pod is still listed when its containers have ended, so no update says that there is room."""
    fakes = LoopFakes(waiting=[make_pod("b")])
    SyncLoop(fakes.deps(), fakes.queue).handle(PeriodicRetry())
    assert fakes.calls == ["remove b", "update b"]


@pytest.mark.parametrize("op", [PodOp.ADD, PodOp.UPDATE, PodOp.DELETE, PodOp.RECONCILE])
def test_mirror_pod_is_recorded_and_never_run(op: PodOp) -> None:
    pod = make_pod("a")
    mirror = replace(pod, metadata=replace(pod.metadata, annotations={ANNOTATION_MIRROR: "hash"}))
    fakes = LoopFakes()
    SyncLoop(fakes.deps(), fakes.queue).handle(PodUpdate(op, Source.API, (mirror,)))
    assert fakes.calls == ["set a"]


@pytest.mark.parametrize("op", [PodOp.ADD, PodOp.UPDATE, PodOp.REMOVE, PodOp.RECONCILE])
def test_every_update_retries_deferred_resizes(op: PodOp) -> None:
    fakes = LoopFakes()
    loop = SyncLoop(fakes.deps(), fakes.queue)
    fakes.granted.append(GrantedResize(make_pod("b"), (C,)))
    loop.handle(PodUpdate(op, Source.API, (make_pod("a"),)))
    assert fakes.calls[-2:] == ["fail c Preempting: Preempted in order to admit critical pod", "update b"]
    others = {PodOp.ADD: "pods_added", PodOp.REMOVE: "pods_removed"}
    assert fakes.triggers == [others.get(op, "pod_updated")]


async def test_deferred_resizes_are_retried_periodically() -> None:
    fakes = LoopFakes()
    loop = SyncLoop(fakes.deps(), fakes.queue)
    events: list[LoopEvent] = []
    task = asyncio.ensure_future(post_periodic_retries(fakes.clock, events.append))
    await fakes.clock.advance(RETRY_SECONDS * 2 + 1)
    task.cancel()
    assert events == [PeriodicRetry(), PeriodicRetry()]
    fakes.granted.append(GrantedResize(make_pod("b")))
    loop.handle(events[0])
    assert fakes.calls == ["update b"]


def test_verdicts_and_probe_results_are_recorded_as_decisions() -> None:
    fakes = LoopFakes(verdicts={PodUID("a"): AdmissionVerdict("NodePorts", "taken", rule="host ports")})
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("a", "x"), make_pod("b", "y"))))
    loop.handle(ProbeUpdate(A, ContainerID("c"), ProbeType.READINESS, ProbeResult.FAILURE, "app", "500"))
    assert fakes.journal.reported == [
        "a: admission : reject: rule host ports: NodePorts: taken",
        "b: admission : admit: no rule rejects it: ",
        "a: probe app: readiness: failure: the probe's threshold was reached: 500",
    ]
