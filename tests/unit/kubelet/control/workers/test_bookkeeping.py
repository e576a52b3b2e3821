"""Pods, counts and records that the set of workers remembers, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.timeline import Step
from tests.unit.kubelet.control.fakes import Node, make_pod

U1 = PodUID("u1")


@dataclass
class TimedNode(Node):
    """A node that records the steps of the timeline that begin."""

    begun: list[tuple[PodUID, Step]] = field(default_factory=list)

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        self.begun.append((uid, step))


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[PodWorkers]:
    workers = PodWorkers(node.deps(), node.table)
    task = asyncio.create_task(workers.run(), name="workers")
    await node.clock.settle()
    try:
        yield workers
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_calls_about_an_unknown_pod_do_nothing() -> None:
    node, unknown = Node(), PodUID("unknown")
    async with running(node) as workers:
        workers.remove(unknown)
        workers.fail(unknown, "Evicted", "memory")
        workers.poke(unknown)
        await node.clock.settle()
        assert (workers.state(unknown), node.table.ended(unknown), node.calls) == (None, True, [])


async def test_orphan_is_counted_once_and_no_other_pod_is_one() -> None:
    node = Node(running={U1: "web"})
    async with running(node) as workers:
        workers.update(make_pod("u2"))
        for _ in range(2):
            workers.adopt_orphan(PodRef("default", "web", U1))
        await node.clock.settle()
        assert node.metered.count("orphaned") == 1


async def test_timeline_of_a_pod_begins_when_it_is_queued() -> None:
    node = TimedNode()
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        assert node.begun[0] == (U1, Step.QUEUED)
        await node.clock.settle()
        workers.update(make_pod("u1"))
        await node.clock.settle()
        assert node.begun.count((U1, Step.QUEUED)) == 1


async def test_decisions_about_a_pod_are_kept_while_it_is_restarted() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        workers.update(make_pod("u1"))
        await node.clock.settle()
        workers.remove(U1)
        await node.clock.settle()
        workers.update(make_pod("u1"))
        node.hold["kill"].set()
        await node.clock.settle()
        assert node.running == {U1: "web"}
        assert node.journal.forgotten == []
        workers.remove(U1)
        await node.clock.settle()
        assert node.journal.forgotten == [U1]


async def test_nothing_is_remembered_of_names_that_no_pod_has_any_more() -> None:
    node = Node()
    async with running(node) as workers:
        for number in range(5):
            workers.update(make_pod(f"u{number}", name=f"web-{number}"))
        await node.clock.settle()
        for number in range(5):
            workers.remove(PodUID(f"u{number}"))
        await node.clock.settle()
        assert list(workers.known) == []
        assert (dict(workers._waiting), workers._active) == ({}, {})
