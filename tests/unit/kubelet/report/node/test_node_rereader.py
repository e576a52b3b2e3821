"""Reading the Node object again for admission."""

import asyncio
from typing import cast

from pykubelet.apiclient import ApiClient
from pykubelet.kubelet.report.node.node_rereader import NodeRereader
from pykubelet.models.core_v1 import Node
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.apitools import running


class Client:
    """Returns Node objects when it is told to; fails if no answer was given."""

    def __init__(self) -> None:
        self.answers: list[Node] = []
        self.go = asyncio.Semaphore(0)

    async def get(self, target: object) -> Node:
        await self.go.acquire()
        return self.answers.pop()


async def test_request_is_done_after_a_read_that_began_later_whether_it_succeeds_or_not() -> None:
    clock, client = VirtualClock(), Client()
    delivered: list[Node] = []
    done: list[int] = []
    part = NodeRereader(
        client=cast(ApiClient, client), name="n", deliver=delivered.append, done=done.append, clock=clock
    )
    async with running(part.run()):
        assert part.request() == 1
        await clock.settle()
        assert part.request() == 2  # while the first read is under way
        client.go.release()  # it fails: there is no answer
        await clock.settle()
        assert (done, delivered) == ([1], [])
        client.answers.append(Node())
        client.go.release()
        await clock.settle()
        assert (done, delivered) == ([1, 2], [Node()])
