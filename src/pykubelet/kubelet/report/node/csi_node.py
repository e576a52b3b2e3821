"""Publishes the node's CSI drivers: the CSINode object, and ids and topology labels on the Node object."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from pykubelet.apiclient import AlreadyExists, ApiClient, Forbidden, PatchKind
from pykubelet.apiclient.resources import CSI_NODES, NODES
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.kubelet.report.node.plan.csi_objects import (
    new_csi_node,
    node_patch,
    topology_collisions,
    with_drivers,
)
from pykubelet.kubelet.types.storage import DriverNodeInfo
from pykubelet.models.core_v1 import Node
from pykubelet.models.storage_v1 import CSINode

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.2
_MAX_DELAY: Final = 60.0
_REFUSALS: Final = (Invalid, Forbidden)
"""The API server does not take what it was sent, however often."""


class CsiNodeState:
    """Whether the CSINode object is there, without which the scheduler ignores the node's limits of volumes."""

    def __init__(self) -> None:
        self.initialized = Callbacks[[]]()
        """Called when the object is there for the first time."""
        self._fault: str | None = "CSINode is not yet initialized"
        self._searching = True

    def searching(self) -> bool:
        """Return whether the first search for the object has not ended."""
        return self._searching

    def fault(self) -> str | None:
        """Return upstream's message while the object is missing."""
        return self._fault

    def failed(self, error: Exception) -> None:
        """Note that the object could not be created; without effect once it has been there."""
        self._searching = False
        if self._fault is not None:
            self._fault = f"failed to initialize CSINode: {error}"

    def done(self) -> None:
        """Note that the object is there."""
        self._searching = False
        if self._fault is not None:
            self._fault = None
            self.initialized()


class CsiNodeReporter:
    """Keeps the CSINode and Node objects in step with the registered drivers, and retries after errors."""

    def __init__(
        self,
        *,
        client: ApiClient,
        node: Callable[[], Node | None],
        registered: asyncio.Event,
        replaced: Callbacks[[]],
        state: CsiNodeState,
        installed: Callbacks[[str, DriverNodeInfo]],
        removed: Callbacks[[str]],
        clock: Clock,
    ) -> None:
        """``replaced`` is the event of another Node object, with which the API server deletes the CSINode.

        ``installed`` and ``removed`` are the events of drivers; the methods of these names handle them.
        """
        self._state = state
        self._client = client
        self._node = node
        self._registered = registered
        self._clock = clock
        self._there: dict[str, DriverNodeInfo] = {}
        self._gone: set[str] = set()
        self._news = Wakeup(clock)
        installed.subscribe(self.installed)
        removed.subscribe(self.removed)
        replaced.subscribe(self._news.wake)

    def installed(self, driver: str, info: DriverNodeInfo) -> None:
        """Note that a driver has registered."""
        self._there[driver] = info
        self._gone.discard(driver)
        self._news.wake()

    def removed(self, driver: str) -> None:
        """Note that a driver has been removed."""
        self._there.pop(driver, None)
        self._gone.add(driver)
        self._news.wake()

    async def run(self) -> None:
        """Report until cancelled, starting when the node is registered. Errors are logged and retried.

        News end the wait for a retry, so that a driver that is refused does not delay the others.
        """
        await self._registered.wait()
        backoff, guard = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.2), Guard("node.csi", self._clock.monotonic)
        while True:
            self._news.clear()
            with guard.item("report") as attempt:
                await self.report()
            if attempt.error is not None:
                self._state.failed(attempt.error)
                await self._news.sleep(backoff.next("", self._clock.monotonic()))
                continue
            backoff.reset("")
            await self._news.sleep(None)

    async def report(self) -> None:
        """Bring both objects up to date. Raises base errors, Invalid for drivers that are left out."""
        node = self._node()
        if node is None:
            raise Transient("the node is not registered")
        collisions = topology_collisions(node, self._there)
        there = {name: info for name, info in self._there.items() if name not in collisions}
        gone = frozenset(self._gone)
        refused: dict[str, str] = {}
        try:
            await self._publish(node, there, gone)
        except _REFUSALS:
            refused = await self._publish_each(node, there, gone)
        self._gone -= gone
        self._state.done()
        if left_out := collisions | refused:
            raise Invalid("; ".join(f"CSI driver {name}: {text}" for name, text in sorted(left_out.items())))

    async def _publish(self, node: Node, there: Mapping[str, DriverNodeInfo], gone: Collection[str]) -> None:
        """Bring both objects up to date with these drivers. Raises base errors."""
        patch = node_patch(node, there, gone)
        if patch is not None:
            await self._client.patch(NODES.at("", node.metadata.name), patch, PatchKind.MERGE)
        found = await self._get(node)
        wanted = with_drivers(found, node, there, gone)
        if wanted is not None:
            await self._client.update(CSI_NODES.at("", node.metadata.name), wanted)

    async def _publish_each(
        self, node: Node, there: Mapping[str, DriverNodeInfo], gone: Collection[str]
    ) -> dict[str, str]:
        """Publish one driver after the other; return those that the API server refuses, with its reasons.

        A driver may tell any label or id: one that is not valid must not keep the other drivers from the cluster.
        """
        await self._publish(node, {}, gone)
        accepted: dict[str, DriverNodeInfo] = {}
        refused: dict[str, str] = {}
        for name, info in there.items():
            try:
                await self._publish(node, accepted | {name: info}, gone)
                accepted[name] = info
            except _REFUSALS as error:
                refused[name] = str(error)
        return refused

    async def _get(self, node: Node) -> CSINode:
        target = CSI_NODES.at("", node.metadata.name)
        try:
            return await self._client.get(target)
        except NotFound:
            pass
        try:
            return await self._client.create(CSI_NODES.all(), new_csi_node(node))
        except AlreadyExists:
            return await self._client.get(target)
