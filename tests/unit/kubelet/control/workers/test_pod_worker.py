"""The spans of a worker's steps."""

import asyncio

from pykubelet.base import tracing
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from tests.unit.base.tracing.recorded import recording
from tests.unit.kubelet.control.fakes import U1, Node, make_pod, running


async def test_failures_of_a_sync_mark_its_span() -> None:
    failures = tuple(Failure(SyncAction.START_CONTAINER, name, "ErrImagePull", f"{name}: no image") for name in "ab")
    node = Node(prepare_failures=[failures])
    with recording() as recorded:
        async with running(node) as workers:
            workers.update(make_pod("u1"))
            await node.clock.settle()
        assert recorded["syncPod"].status.description == "a: no image; b: no image"


async def test_sync_cancelled_by_a_stop_ends_within_the_trace_of_the_start_and_without_error() -> None:
    node = Node(hold={"sync": asyncio.Event()})
    with recording() as recorded:
        async with running(node) as workers:
            tracing.begin_group(U1, "startPod")
            workers.update(make_pod("u1"))
            await node.clock.settle()
            assert node.calls == ["sync u1"]
            workers.remove(U1)
            await node.clock.settle()
        assert recorded.parent("syncPod") == "startPod"
        assert recorded["syncPod"].status.is_ok
        assert recorded.names()[:2] == ["syncPod", "startPod"], "the start ends before the pod is stopped"
        assert recorded.parent("removePod") == ""
