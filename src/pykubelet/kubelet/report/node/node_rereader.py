"""Reads the Node object at once, for admission: a pod may arrive before the label that it was scheduled for."""

import asyncio
from collections.abc import Callable
from typing import Final

from pykubelet.apiclient import ApiClient
from pykubelet.apiclient.resources import NODES
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import Node

_LIMIT_SECONDS: Final[Seconds] = 10.0


class NodeRereader:
    """Reads the Node object on request; requests that arrive during a read lead to one more read."""

    def __init__(
        self,
        *,
        client: ApiClient,
        name: str,
        deliver: Callable[[Node], None],
        done: Callable[[int], None],
        clock: Clock,
    ) -> None:
        """``deliver`` gets each Node object; ``done`` is called after each attempt, also a failed one, with the number
        of the newest request that it was for."""
        self._client = client
        self._name = name
        self._deliver = deliver
        self._done = done
        self._guard = Guard("node.reread", clock.monotonic)
        self._wakeup = Wakeup(clock)
        self._requests = 0

    def request(self) -> int:
        """Request a read; return the number of the request."""
        self._requests += 1
        self._wakeup.wake()
        return self._requests

    async def run(self) -> None:
        """Serve requests until cancelled. A read that takes longer than 10 s counts as failed."""
        while True:
            await self._wakeup.sleep(None)
            self._wakeup.clear()
            request = self._requests
            with self._guard.item(self._name):
                async with asyncio.timeout(_LIMIT_SECONDS):
                    self._deliver(await self._client.get(NODES.at("", self._name)))
            self._done(request)
