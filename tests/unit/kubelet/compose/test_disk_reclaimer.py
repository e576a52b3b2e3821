"""What is removed when a disk is short, before a pod is evicted: over real pod workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pykubelet.kubelet.compose.adapters import DiskReclaimer
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.observe.eviction.eviction_types import Reclaim
from pykubelet.kubelet.types.ids import PodUID
from tests.unit.kubelet.control.fakes import Node, make_pod

RUNNING, ENDED, STATIC = PodUID("running"), PodUID("ended"), PodUID("static")


class Disk:
    """The runtime's dead containers and the unused images; records what is removed."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    async def gc(
        self, keep: Callable[[], AbstractSet[PodUID]], *, ended: Callable[[], AbstractSet[PodUID]] = frozenset
    ) -> None:
        self.calls.append((set(keep()), set(ended())))

    async def remove_unused(self) -> None:
        self.calls.append("images")


@asynccontextmanager
async def pods() -> AsyncIterator[PodWorkers]:
    """A running pod of an API server, one that has ended, and a static one that has ended."""
    node = Node(exited={ENDED, STATIC})
    workers = PodWorkers(node.deps())
    task = asyncio.create_task(workers.run(), name="workers")
    for uid, source in ((RUNNING, "api"), (ENDED, "api"), (STATIC, "file")):
        workers.update(make_pod(uid, name=uid, source=source))
    await node.clock.settle()
    assert {uid for uid in workers.known if workers.ended(uid)} == {ENDED, STATIC}
    try:
        yield workers
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_dead_containers_of_ended_pods_of_the_api_server_are_removed_before_images() -> None:
    """Those of a static pod stay: without them, it would run again after a restart of the agent."""
    disk = Disk()
    async with pods() as workers:
        reclaimer = DiskReclaimer(runtime=cast("Any", disk), images=cast("Any", disk), workers=workers)
        await reclaimer.reclaim(tuple(Reclaim))
    assert disk.calls == [({RUNNING, ENDED, STATIC}, {ENDED}), "images"]


async def test_only_what_is_on_the_short_disk_is_removed() -> None:
    disk = Disk()
    async with pods() as workers:
        reclaimer = DiskReclaimer(runtime=cast("Any", disk), images=cast("Any", disk), workers=workers)
        await reclaimer.reclaim((Reclaim.IMAGES,))
        assert disk.calls == ["images"]
        await reclaimer.reclaim((Reclaim.CONTAINERS,))
    assert disk.calls == ["images", ({RUNNING, ENDED, STATIC}, {ENDED})]
