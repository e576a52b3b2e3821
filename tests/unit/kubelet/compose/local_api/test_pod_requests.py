"""Requests for a pod that clients of the local API may make."""

import asyncio
from typing import Any, cast

import pytest

from pykubelet.base.errors import Conflict
from pykubelet.kubelet.compose.local_api.pod_requests import PodRequests
from pykubelet.kubelet.types.ids import PodUID
from tests.unit.kubelet.control.fakes import U1, Node, make_pod, running


async def test_grace_period_of_a_deletion_is_shortened_while_the_pod_stops() -> None:
    node = Node(hold={"kill": asyncio.Event()})
    async with running(node) as workers:
        unused = cast(Any, None)
        requests = PodRequests(restarts=unused, images=unused, wake=unused, workers=workers)
        workers.update(make_pod("u1"))
        await node.clock.settle()
        for uid in (U1, PodUID("unknown")):
            with pytest.raises(Conflict, match="is not being deleted: remove its manifest first"):
                requests.stop(uid, 1)
        await node.clock.settle()
        assert not [call for call in node.calls if call.startswith("kill")]
        workers.remove(U1)
        await node.clock.settle()
        requests.stop(U1, 1)
        requests.stop(U1, 5)
        await node.clock.settle()
        assert [call for call in node.calls if call.startswith("kill")] == ["kill u1 grace=None", "kill u1 grace=1"]
        node.hold["kill"].set()
        await node.clock.settle()
        assert not list(workers.known)
