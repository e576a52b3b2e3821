"""Containers and images that are removed when a disk is short, before a pod is evicted: over real pod workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.compose.adapters import DiskReclaimer
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.models.core_v1 import PodStatus
from tests.unit.kubelet.control.fakes import Node, make_pod

RUNNING, ENDED, STATIC = PodUID("running"), PodUID("ended"), PodUID("static")


class Disk:
    """The runtime's dead containers and the unused images; records what is removed."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def gc(
        self, keep: Callable[[], AbstractSet[PodUID]] | None, *, ended: Callable[[], AbstractSet[PodUID]] = frozenset
    ) -> None:
        self.calls.append((set(keep()) if keep is not None else "all", set(ended())))

    async def remove_unused(self) -> None:
        self.calls.append("images")


class Rig:
    """The disk, a reclaimer, and pods with their workers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.disk = Disk()
        self.desired = PodManager()
        self.workers = PodWorkers(node.deps(), node.table)
        self.ready = True
        self.sourced: frozenset[PodUID] = frozenset()
        self.reclaimer = DiskReclaimer(
            runtime=cast("Any", self.disk),
            images=cast("Any", self.disk),
            pods=self.desired,
            workers=node.table,
            sources_ready=lambda: self.ready,
            wanted=lambda: self.sourced,
        )

    def seen(self, uid: PodUID, phase: str) -> None:
        """The API server's object of a pod arrives."""
        self.desired.set(replace(make_pod(uid, name=uid, source="api"), status=PodStatus(phase=phase)))


@asynccontextmanager
async def pods() -> AsyncIterator[Rig]:
    """A running pod of an API server, one that has ended, and a static one that has ended."""
    node = Node(exited={ENDED, STATIC})
    rig = Rig(node)
    task = asyncio.create_task(rig.workers.run(), name="workers")
    for uid, source in ((RUNNING, "api"), (ENDED, "api"), (STATIC, "file")):
        pod = make_pod(uid, name=uid, source=source)
        rig.desired.set(pod)
        rig.workers.update(pod)
    await node.clock.settle()
    assert {uid for uid in rig.workers.known if node.table.ended(uid)} == {ENDED, STATIC}
    try:
        yield rig
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_dead_containers_of_ended_pods_of_the_api_server_are_removed_before_images() -> None:
    """Those of a static pod stay: without them, it would run again after a restart of the agent."""
    async with pods() as rig:
        rig.seen(ENDED, "Succeeded")
        await rig.reclaimer.reclaim(tuple(Reclaim))
    assert rig.disk.calls == [({RUNNING, ENDED, STATIC}, {ENDED}), "images"]


async def test_dead_containers_of_an_ended_pod_stay_until_the_api_server_has_its_end() -> None:
    """Without them, and with the API server unavailable, a restarted agent would run the pod again."""
    async with pods() as rig:
        rig.seen(ENDED, "Running")
        await rig.reclaimer.reclaim((Reclaim.CONTAINERS,))
        assert rig.disk.calls == [({RUNNING, ENDED, STATIC}, set())]


async def test_containers_of_an_evicted_pod_are_removed_before_the_api_server_has_its_end() -> None:
    """While the API server is away, each evicted pod would keep its space, and the next one would be evicted for it."""
    async with pods() as rig:
        rig.node.table.fail(RUNNING, Reason.EVICTED, "disk", 1)
        await rig.node.clock.settle()
        rig.seen(RUNNING, "Running")
        await rig.reclaimer.reclaim((Reclaim.CONTAINERS,))
    assert rig.disk.calls == [({RUNNING, ENDED, STATIC}, {RUNNING})]


async def test_logs_of_a_pod_that_its_source_cannot_read_are_no_garbage() -> None:
    async with pods() as rig:
        rig.sourced = frozenset({PodUID("unread")})
        await rig.reclaimer.reclaim((Reclaim.CONTAINERS,))
    assert rig.disk.calls == [({RUNNING, ENDED, STATIC, "unread"}, set())]


async def test_no_pod_is_taken_for_garbage_until_all_sources_have_been_read() -> None:
    async with pods() as rig:
        rig.ready = False
        await rig.reclaimer.reclaim(tuple(Reclaim))
    assert rig.disk.calls == [("all", set()), "images"]


async def test_only_what_is_on_the_short_disk_is_removed() -> None:
    async with pods() as rig:
        rig.seen(ENDED, "Failed")
        await rig.reclaimer.reclaim((Reclaim.IMAGES,))
        assert rig.disk.calls == ["images"]
        await rig.reclaimer.reclaim((Reclaim.CONTAINERS,))
    assert rig.disk.calls == ["images", ({RUNNING, ENDED, STATIC}, {ENDED})]
